"""Rotary position embedding (Su et al., RoFormer, arXiv:2104.09864)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.operators.layers.base import Case, Draw, LayerOperator, wide


def rotary_embedding(
    query: Any, key: Any, cos: Any, sin: Any, interleaved: bool = False
) -> tuple[Any, Any]:
    """Each pair (a, b) of a head becomes (a cos - b sin, b cos + a sin): a complex product.

    `query` (tokens, heads, d), `key` (tokens, kv heads, d); `cos`, `sin` (tokens, r / 2) of each
    token's position. The first r of d are turned, the rest is kept. Pairs are (i, i + r / 2) as in
    GPT-NeoX, or with `interleaved` (2i, 2i + 1) as in GPT-J. New tensors; the arguments are kept.
    """
    import torch

    turn = torch.complex(wide(cos), wide(sin)).unsqueeze(1)

    def turned(x: Any) -> Any:
        half = cos.shape[-1]
        head, rest = wide(x[..., : 2 * half]), wide(x[..., 2 * half :])
        if interleaved:
            pairs = torch.complex(head[..., 0::2], head[..., 1::2]) * turn
            flat = torch.view_as_real(pairs).flatten(-2)
        else:
            pairs = torch.complex(head[..., :half], head[..., half:]) * turn
            flat = torch.cat((pairs.real, pairs.imag), -1)
        return torch.cat((flat, rest), -1)

    return turned(query), turned(key)


SHAPES = {
    "one token": (1, 4, 4, 64, 64),
    "no tokens": (0, 4, 4, 64, 64),
    "grouped heads": (7, 8, 2, 64, 64),
    "part of the head": (5, 4, 2, 96, 32),
    "odd numbers": (33, 3, 1, 80, 80),
}
"""Tokens, heads, kv heads, head size, size that is turned."""


def _cases(draw: Draw) -> Iterator[Case]:
    for interleaved in (False, True):
        for label, (tokens, heads, kv_heads, size, turned) in SHAPES.items():
            angles = draw.normal(tokens, turned // 2, scale=3).float()
            cos, sin = angles.cos().to(draw.dtype), angles.sin().to(draw.dtype)
            query, key = draw.normal(tokens, heads, size), draw.normal(tokens, kv_heads, size)
            style = "interleaved" if interleaved else "halves"
            yield Case(f"{label}, {style}", (query, key, cos, sin), {"interleaved": interleaved})


OPERATORS = (LayerOperator(rotary_embedding, _cases),)

"""Gated activations: one half of the last axis opens the other (Shazeer, "GLU Variants Improve
Transformer", arXiv:2002.05202)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jumar.operators.layers.base import ROUNDED_ONCE, Case, Draw, LayerOperator, wide


def silu_and_mul(x: Any) -> Any:
    """`a / (1 + exp(-a)) * b` for the halves a, b of the last axis: (..., 2d) -> (..., d)."""
    import torch

    gate, value = _halves(x)
    return gate / (1 + torch.exp(-gate)) * value


def gelu_and_mul(x: Any, approximate: str = "none") -> Any:
    """`gelu(a) * b` for the halves a, b of the last axis: (..., 2d) -> (..., d).

    `none`: a / 2 * (1 + erf(a / sqrt(2))); `tanh`: a / 2 * (1 + tanh(sqrt(2 / pi) * (a + 0.044715
    * a**3))) (Hendrycks and Gimpel, arXiv:1606.08415).
    """
    import torch

    gate, value = _halves(x)
    if approximate == "tanh":
        inner = torch.tanh(math.sqrt(2 / math.pi) * (gate + 0.044715 * gate**3))
    else:
        inner = torch.erf(gate / math.sqrt(2))
    return gate / 2 * (1 + inner) * value


def _halves(x: Any) -> tuple[Any, Any]:
    size = x.shape[-1] // 2
    return wide(x[..., :size]), wide(x[..., size:])


SHAPES = {
    "one row": (1, 2 * 64),
    "no rows": (0, 2 * 64),
    "several axes": (2, 3, 2 * 16),
    "one past a power of two": (5, 2 * 65),
    "wide": (3, 2 * 11008),
}


def _silu_cases(draw: Draw) -> Iterator[Case]:
    for label, shape in SHAPES.items():
        yield Case(label, (draw.normal(*shape),))
    yield Case("large values", (draw.normal(4, 2 * 32, scale=30),))
    yield Case("not contiguous", (draw.normal(2 * 32, 6).T,))


def _gelu_cases(draw: Draw) -> Iterator[Case]:
    for approximate in ("none", "tanh"):
        for label, args, _ in _silu_cases(draw):
            yield Case(f"{label}, {approximate}", args, {"approximate": approximate})


CANCELLING = {dtype: one._replace(absolute=3e-5) for dtype, one in ROUNDED_ONCE.items()}
"""Left of zero 1 + erf cancels: what is lost in float32 grows with the other half (here to 100)."""

OPERATORS = (
    LayerOperator(silu_and_mul, _silu_cases),
    LayerOperator(gelu_and_mul, _gelu_cases, CANCELLING),
)

"""Mixtures of experts: routing, sorting by expert, the experts themselves.

The interfaces follow those of vLLM's fused mixture, without its output arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.operators.layers.base import (
    EXACT,
    ROUNDED_ONCE,
    Case,
    Draw,
    LayerOperator,
    Tolerance,
    wide,
)


def topk_softmax(gating: Any, topk: int, renormalize: bool = False) -> tuple[Any, Any]:
    """The `topk` most probable experts of each token, best first.

    `gating` (tokens, experts); results (tokens, topk): softmax probabilities in float32, which
    `renormalize` makes add up to 1, and expert numbers in int32.
    """
    import torch

    powers = torch.exp(wide(gating) - wide(gating).max(-1, keepdim=True).values)
    probabilities = powers / powers.sum(-1, keepdim=True)
    order = probabilities.argsort(dim=-1, descending=True, stable=True)[:, :topk]
    weights = probabilities.gather(-1, order)
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights, order.int()


def moe_align_block_size(topk_ids: Any, block_size: int, num_experts: int) -> tuple[Any, Any, Any]:
    """Sort (token, choice) pairs by expert, each expert's filled up to whole blocks.

    `topk_ids` (tokens, topk), numbers of experts. Results, all int32: `sorted_ids`, indices into
    `topk_ids.flatten()`, where `topk_ids.numel()` stands for an empty place, of length numel +
    num_experts * (block_size - 1); `expert_ids`, the expert of each block; `num_padded` (1,), how
    many of `sorted_ids` are in use. What lies behind is left open.
    """
    import torch

    flat = topk_ids.flatten().tolist()
    places, experts = [], []
    for expert in range(num_experts):
        mine = [index for index, one in enumerate(flat) if one == expert]
        blocks = -(-len(mine) // block_size)
        places += mine + [len(flat)] * (blocks * block_size - len(mine))
        experts += [expert] * blocks
    made = [torch.tensor(one, dtype=torch.int32) for one in (places, experts, [len(places)])]
    return made[0], made[1], made[2]


def _in_use(results: tuple[Any, Any, Any], case: Case) -> tuple[Any, Any, Any]:
    """Without what is left open: the space behind, and the order of an expert's places."""
    import torch

    block_size = case.args[1]
    sorted_ids, expert_ids, num_padded = (one.cpu() for one in results)
    used = int(num_padded)
    experts = expert_ids[: used // block_size]
    pairs = sorted(
        zip(experts.repeat_interleave(block_size).tolist(), sorted_ids[:used].tolist(), strict=True)
    )
    return torch.tensor([place for _, place in pairs]), experts, num_padded


def moe_sum(x: Any) -> Any:
    """The sum over a token's experts: (tokens, topk, d) -> (tokens, d)."""
    return wide(x).sum(1)


def fused_moe(x: Any, w1: Any, w2: Any, topk_weights: Any, topk_ids: Any) -> Any:
    """`sum_k weight_k * (silu(x W_gate_k) * (x W_up_k)) W_down_k` over a token's experts.

    `x` (tokens, d), `w1` (experts, 2h, d) gate above up, `w2` (experts, d, h), `topk_weights` and
    `topk_ids` (tokens, topk); result (tokens, d). Shazeer et al., arXiv:1701.06538.
    """
    import torch

    out = torch.zeros(x.shape[0], w2.shape[1], dtype=torch.float64)
    for token, experts in enumerate(topk_ids.tolist()):
        for place, expert in enumerate(experts):
            gate, up = (wide(w1[expert]) @ wide(x[token])).chunk(2)
            hidden = gate / (1 + torch.exp(-gate)) * up
            out[token] += wide(topk_weights[token, place]) * (wide(w2[expert]) @ hidden)
    return out


def _topk_cases(draw: Draw) -> Iterator[Case]:
    """Logits are different eighths, so that the order of experts is never open."""
    for label, (tokens, experts, topk) in {
        "one token": (1, 8, 2),
        "no tokens": (0, 8, 2),
        "all experts": (3, 4, 4),
        "many experts": (5, 256, 8),
        "not a power of two": (7, 60, 6),
    }.items():
        logits = (draw.distinct(tokens, experts).float() / 8).to(draw.dtype)
        for renormalize in (False, True):
            name = f"{label}, renormalised" if renormalize else label
            yield Case(name, (logits, topk, renormalize))


def _align_cases(draw: Draw) -> Iterator[Case]:
    for label, (tokens, experts, topk, block) in {
        "one token": (1, 8, 2, 16),
        "blocks of one": (5, 4, 2, 1),
        "most experts empty": (2, 64, 2, 32),
        "several blocks each": (40, 4, 2, 8),
    }.items():
        yield Case(label, (draw.distinct(tokens, experts, topk), block, experts))
    yield Case("one expert only", (draw.integers(1, 20, 1), 8, 4))


def _sum_cases(draw: Draw) -> Iterator[Case]:
    for shape in ((1, 2, 64), (0, 2, 64), (5, 8, 129), (3, 1, 4096)):
        yield Case("x".join(map(str, shape)), (draw.normal(*shape),))


def _moe_cases(draw: Draw) -> Iterator[Case]:
    for label, (tokens, experts, topk, d, h) in {
        "one token": (1, 4, 2, 32, 64),
        "no tokens": (0, 4, 2, 32, 64),
        "all experts": (3, 4, 4, 16, 16),
        "odd sizes": (7, 6, 2, 48, 40),
    }.items():
        w1, w2 = draw.normal(experts, 2 * h, d, scale=0.2), draw.normal(experts, d, h, scale=0.2)
        weights = draw.normal(tokens, topk).float().softmax(-1)
        ids = draw.distinct(tokens, experts, topk)
        yield Case(label, (draw.normal(tokens, d), w1, w2, weights, ids))


SUMS = {
    "float32": Tolerance(1e-4, 1e-5),
    "float16": Tolerance(1e-2, 5e-3),
    "bfloat16": Tolerance(4e-2, 4e-2),
}
"""Sums over hidden sizes, with intermediate results in the dtype."""

PROBABILITIES = dict.fromkeys(ROUNDED_ONCE, Tolerance(1e-5, 1e-7))
"""float32 whatever the logits are."""

OPERATORS = (
    LayerOperator(topk_softmax, _topk_cases, PROBABILITIES),
    LayerOperator(moe_align_block_size, _align_cases, EXACT, _in_use),
    LayerOperator(moe_sum, _sum_cases),
    LayerOperator(fused_moe, _moe_cases, SUMS),
)

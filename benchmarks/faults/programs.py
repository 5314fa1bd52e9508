"""Small forwards that call operators at the shapes at which they failed.

A program is a function of the device; it gives a list of tensors. Its numbers are drawn from one
seed on the CPU, so that it computes the same anywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

VOCABULARY = 151_936
"""Rows of Qwen's embedding."""


def make(name: str, device: str) -> Callable[[], list[Tensor]]:
    """In a child: the forward of a program, which gives its answer on the CPU."""
    torch.set_num_threads(1)

    def work() -> list[Tensor]:
        torch.manual_seed(0)
        with torch.inference_mode():
            return [one.cpu().clone() for one in PROGRAMS[name](device)]

    return work


def normal(device: str, *shape: int) -> Tensor:
    """Normally distributed."""
    return torch.randn(*shape).to(device)


def below(device: str, high: int, *shape: int) -> Tensor:
    """Whole numbers from 0."""
    return torch.randint(high, shape).to(device)


def decode(device: str) -> list[Tensor]:
    """One token through a gated layer: M is 1."""
    x, gate, down = normal(device, 1, 64), normal(device, 96, 64), normal(device, 64, 96)
    return [F.linear(F.silu(F.linear(x, gate)), down) * 0.1 + x]


def prefill(device: str) -> list[Tensor]:
    """Seven tokens: normed, projected, scored; sizes of no block."""
    x, weight = normal(device, 7, 64), normal(device, 64, 64)
    normed = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    y = torch.mm(normed, weight).view(7, 8, 8).transpose(0, 1)
    scores = torch.bmm(y, y.transpose(1, 2)) * 0.1
    return [F.log_softmax(scores.reshape(8, 49), -1)]


def rope(device: str) -> list[Tensor]:
    """Rotary embedding of queries and keys, then attention."""
    q, k = normal(device, 1, 2, 9, 16), normal(device, 1, 2, 9, 16)
    angles = torch.outer(torch.arange(9.0), 0.1 ** torch.arange(8.0)).to(device)
    cos, sin = (one.repeat_interleave(2, -1) for one in (angles.cos(), angles.sin()))

    def turned(x: Tensor) -> Tensor:
        left, right = x[..., ::2], x[..., 1::2]
        return x * cos + torch.stack((-right, left), -1).flatten(-2) * sin

    return [F.scaled_dot_product_attention(turned(q), turned(k), k)]


def sampler(device: str) -> list[Tensor]:
    """Top-p over a whole vocabulary."""
    logits = normal(device, 2, VOCABULARY)
    best, places = logits.topk(40)
    kept = torch.softmax(best, -1).cumsum(-1) < 0.9
    mass = torch.softmax(logits, -1).cumsum(-1)[:, ::1000]
    return [torch.where(kept, best, best * 0 - 9), mass, places.double()]


def gumbel(device: str) -> list[Tensor]:
    """Gumbel's trick over 41 candidates: the largest of score - log(-log u) is the token."""
    u, scores = torch.rand(41).to(device), normal(device, 41)
    noise = u.clone().log_().neg_().log_()
    return [(scores - noise).argmax().double()]


def gather(device: str) -> list[Tensor]:
    """Rows of a table, and rotary angles of a vision model by two indices."""
    table, places = normal(device, 32, 64), below(device, 32, 640)
    angles, rows, columns = normal(device, 16, 16), below(device, 16, 40), below(device, 16, 40)
    return [table.index_select(0, places).tanh(), angles[rows, columns] * 2]


def recurrence(device: str) -> list[Tensor]:
    """Sixty-four steps of a gated delta rule's decay, which is near to 1."""
    state, gates = normal(device, 8, 8), normal(device, 64, 8, 8)
    for gate in gates:
        decay = torch.exp(-torch.log1p(0.02 * gate.abs()))
        state = state * decay + gate * 0.1
    return [state]


def mamba(device: str) -> list[Tensor]:
    """A depthwise convolution, and states that are written to their slots."""
    x, weight = normal(device, 1, 6, 18), normal(device, 6, 1, 4)
    y = F.silu(F.conv1d(x, weight, padding=3, groups=6))
    states = torch.zeros(5, 6, 21).to(device)
    states[torch.tensor([3]).to(device)] = y
    return [states.sum(0)]


def experts(device: str) -> list[Tensor]:
    """A mixture of experts: routed, counted, computed, added up."""
    x, w = normal(device, 12, 16), normal(device, 4, 16, 16)
    weights, chosen = torch.softmax(normal(device, 12, 4), -1).topk(2)
    every = torch.bmm(x.expand(4, 12, 16), w).transpose(0, 1)
    own = every.gather(1, chosen[..., None].expand(-1, -1, 16))
    counts = torch.bincount(chosen.flatten(), minlength=4)
    return [(own * weights[..., None]).sum(1), counts.double()]


def counting(device: str) -> list[Tensor]:
    """More tokens than a grid may have blocks."""
    return [torch.bincount(below(device, 64, 70_000), minlength=64).double()]


def generation(device: str) -> list[Tensor]:
    """Twenty steps that end at the end-of-sequence token; the length is the answer."""
    tokens, ends = torch.arange(20).to(device), torch.tensor([18, 99]).to(device)
    length = 0
    for token in tokens:
        length += 1
        if torch.isin(token[None], ends).any().item():
            break
    return [torch.tensor(float(length))]


def empty(device: str) -> list[Tensor]:
    """A batch without rows."""
    x = torch.zeros(0, 8).to(device)
    return [x.cumsum(-1), x.sum(-1), torch.ones_like(x), x.clone().fill_(2), (x > 0).all()[None]]


def empty_draw(device: str) -> list[Tensor]:
    """A sampler that is given no requests."""
    return [torch.zeros(0, 8).to(device).exponential_()]


def scalars(device: str) -> list[Tensor]:
    """Tensors without dimensions: scales of a cache."""
    scale = torch.tensor(0.5).to(device)
    return [torch.clamp(scale, 0.0, 1.0) * normal(device, 3), scale[None]]


def lifted(device: str) -> list[Tensor]:
    """A scale of a cache, made on the device."""
    return [torch.tensor(0.5, device=device)[None] * 2]


def choices(device: str) -> list[Tensor]:
    """The nearest of 16 centres for each of four points."""
    distances = normal(device, 4, 16).abs()
    return [distances.argmin(dim=1).double(), distances.argmax(dim=1).double()]


def statistics(device: str) -> list[Tensor]:
    """Medians, and runs of equal numbers."""
    x = normal(device, 5, 9)
    return [x.median(-1).values, torch.unique_consecutive((x > 0).long().flatten()).double()]


def transposed(device: str) -> list[Tensor]:
    """A pointwise kernel on a tensor that lies transposed."""
    return [torch.neg(normal(device, 6, 6).t()) + 1]


def filled(device: str) -> list[Tensor]:
    """Memory like that of a transposed tensor, filled by a kernel that asks for its strides."""
    like = torch.empty_like(normal(device, 6, 4).t()).fill_(1)
    return [torch.tensor(like.stride()).double()]


def fused_buffer(device: str) -> list[Tensor]:
    """Queries are scaled in place, in the buffer that holds the keys behind them."""
    both = normal(device, 32)
    both[:16].mul_(0.25)
    return [both.clone()]


def warmup(device: str) -> list[Tensor]:
    """A warm-up that may fail, and is then done without; what follows has to work."""
    x = normal(device, 4, 8)
    with suppress(RuntimeError):
        torch.logcumsumexp(x, -1)
    return [torch.tanh(x).exp()]


def streams(device: str) -> list[Tensor]:
    """Two libraries in turn: one computes the gelu, the other the softmax of it."""
    return [torch.softmax(F.gelu(normal(device, 4, 8)), -1)]


def drawn(device: str) -> list[Tensor]:
    """Random numbers; what is asked of them is that they are finite."""
    return [torch.isfinite(torch.randn(4, 8, device=device)).double()]


def whole_numbers(device: str) -> list[Tensor]:
    """Positions as int64."""
    return [(torch.arange(6).to(device) + 3).double()]


def waiting(device: str) -> list[Tensor]:
    """One operator, and the wait for the device."""
    return [normal(device, 4).sin()]


def waited_for(device: str) -> list[Tensor]:
    """The same, waited for as a runtime does at the end of a capture."""
    found = waiting(device)
    if device != "cpu":
        torch.npu.synchronize()
    return found


PROGRAMS: dict[str, Callable[[str], list[Tensor]]] = {
    one.__name__: one
    for one in (
        decode, prefill, rope, sampler, gumbel, gather, recurrence, mamba, experts, counting,
        generation, empty, empty_draw, scalars, lifted, choices, statistics, transposed, filled,
        fused_buffer, warmup, streams, drawn, whole_numbers, waiting, waited_for,
    )
}  # fmt: skip

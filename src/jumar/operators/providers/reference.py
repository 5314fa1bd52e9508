"""The reference: every layer operator in plain torch, float32 inside, rounded once at the end.

It runs on every device. Nothing depends on values (no loop over the experts that were chosen), so
that graphs can hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from jumar.contracts.errors import OperatorUnavailable
from jumar.operators.providers.base import Implementation


class Reference:
    """See `Provider`."""

    name = "reference"

    def version(self) -> str | None:
        """That of torch."""
        import torch

        return str(torch.__version__)

    def unavailable(self) -> str | None:
        """Wherever torch is."""
        return None

    def layers(self) -> Mapping[str, Implementation]:
        """All of them."""
        return {one.__name__: Implementation(partial(_given, one)) for one in FUNCTIONS}

    def functions(self) -> Mapping[str, Implementation]:
        """None by name: `jumar.operators.reference` makes that of any overload."""
        return {}


def _given(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def silu_and_mul(x: Any) -> Any:
    import torch.nn.functional as F  # noqa: N812

    gate, value = x.float().chunk(2, -1)
    return (F.silu(gate) * value).to(x.dtype)


def gelu_and_mul(x: Any, approximate: str = "none") -> Any:
    import torch.nn.functional as F  # noqa: N812

    gate, value = x.float().chunk(2, -1)
    return (F.gelu(gate, approximate=approximate) * value).to(x.dtype)


def rms_norm(x: Any, weight: Any, epsilon: float = 1e-6, residual: Any = None) -> Any:
    import torch

    total = x.float() if residual is None else x.float() + residual.float()
    scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + epsilon)
    normalised = (total * scale * weight.float()).to(x.dtype)
    return normalised if residual is None else (normalised, total.to(x.dtype))


def rotary_embedding(
    query: Any, key: Any, cos: Any, sin: Any, interleaved: bool = False
) -> tuple[Any, Any]:
    import torch

    cos, sin = cos.float().unsqueeze(1), sin.float().unsqueeze(1)
    size = 2 * cos.shape[-1]

    def turned(x: Any) -> Any:
        head = x[..., :size].float()
        a, b = (head[..., 0::2], head[..., 1::2]) if interleaved else head.chunk(2, -1)
        pair = (a * cos - b * sin, b * cos + a * sin)
        joined = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
        joined = joined.to(x.dtype)
        return joined if size == x.shape[-1] else torch.cat((joined, x[..., size:]), -1)

    return turned(query), turned(key)


def attention_backend(use_mla: bool = False, use_sparse: bool = False) -> str:
    if use_mla or use_sparse:
        kind = "latent" if use_mla else "sparse"
        raise OperatorUnavailable(f"The reference has no {kind} attention.")
    return "jumar.vllm.attention.paged.TorchPagedBackend"


def topk_softmax(gating: Any, topk: int, renormalize: bool = False) -> tuple[Any, Any]:
    weights, experts = gating.float().softmax(-1).topk(topk, -1)
    if renormalize:
        weights = weights / weights.sum(-1, keepdim=True)
    return weights, experts.int()


def moe_align_block_size(topk_ids: Any, block_size: int, num_experts: int) -> tuple[Any, Any, Any]:
    import torch

    flat = topk_ids.flatten().long()
    length = flat.numel() + num_experts * (block_size - 1)
    blocks = -(-length // block_size)
    experts = torch.arange(num_experts, device=flat.device)
    counts = (flat.unsqueeze(1) == experts).sum(0)
    ends = ((counts + block_size - 1) // block_size * block_size).cumsum(0)
    starts = ends - (counts + block_size - 1) // block_size * block_size
    order = flat.argsort(stable=True)
    mine = flat[order]
    rank = torch.arange(flat.numel(), device=flat.device) - (counts.cumsum(0) - counts)[mine]
    sorted_ids = torch.full((length,), flat.numel(), device=flat.device)
    sorted_ids = sorted_ids.scatter(0, starts[mine] + rank, order)
    first = torch.arange(blocks, device=flat.device) * block_size
    expert_ids = (first.unsqueeze(1) >= ends).sum(1).clamp(max=num_experts - 1)
    return sorted_ids.int(), expert_ids.int(), ends[-1:].int()


def moe_sum(x: Any) -> Any:
    return x.float().sum(1).to(x.dtype)


def fused_moe(x: Any, w1: Any, w2: Any, topk_weights: Any, topk_ids: Any) -> Any:
    """Every expert computes every token: slow, and the same steps whatever was routed."""
    import torch

    out = torch.zeros(x.shape[0], w2.shape[1], dtype=torch.float32, device=x.device)
    for expert in range(w1.shape[0]):
        chosen = topk_ids == expert
        weight = (topk_weights.float() * chosen).sum(1, keepdim=True)
        hidden = silu_and_mul(x.float() @ w1[expert].float().t())
        answer = hidden @ w2[expert].float().t()
        out = out + torch.where(chosen.any(1, keepdim=True), answer * weight, 0)
    return out.to(x.dtype)


FUNCTIONS = (
    silu_and_mul,
    gelu_and_mul,
    rms_norm,
    rotary_embedding,
    attention_backend,
    topk_softmax,
    moe_align_block_size,
    moe_sum,
    fused_moe,
)

"""FlagGems: Triton kernels for torch's operators and for layers.

Read against the registry's 5.0.2 and the sources of August 2026 (5.3). Its functions are registered
one by one by Jumar, never by `flag_gems.enable()`, which would take all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jumar.operators.providers.base import FLOATS, Implementation

ON = ("cuda", "npu")


class FlagGems:
    """See `Provider`."""

    name = "flag_gems"

    def version(self) -> str | None:
        """The version of the distribution flag_gems."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("flag_gems")
        except PackageNotFoundError:
            return None

    def unavailable(self) -> str | None:
        """Without Triton, or where FlagGems does not import on this machine."""
        from importlib.util import find_spec

        for name in ("flag_gems", "triton"):
            if find_spec(name) is None:
                return f"{name} is not installed"
        try:
            import flag_gems  # noqa: F401
        except Exception as error:  # noqa: BLE001 - whatever its own detection of devices meets
            return f"flag_gems does not import: {type(error).__name__}: {error}"
        return None

    def layers(self) -> Mapping[str, Implementation]:
        """Those that it has fused kernels for."""
        makers = {
            "silu_and_mul": _silu_and_mul,
            "gelu_and_mul": _gelu_and_mul,
            "rms_norm": _rms_norm,
            "rotary_embedding": _rotary_embedding,
            "topk_softmax": _topk_softmax,
            "moe_align_block_size": _moe_align_block_size,
            "moe_sum": _moe_sum,
            "fused_moe": _fused_moe,
        }
        return {name: Implementation(make, FLOATS, ON) for name, make in makers.items()}

    def functions(self) -> Mapping[str, Implementation]:
        """What its registrar lists for this machine, by overload."""
        import flag_gems

        listed = [entry for entry in flag_gems._FULL_CONFIG if _holds(*entry[2:3])]
        dtypes = _dtypes(flag_gems.runtime.device)
        return {
            f"aten::{entry[0]}": Implementation(_holding(entry[1]), dtypes, ON) for entry in listed
        }


OTHERS = ("float64", "int8", "int16", "int32", "int64", "uint8", "bool")
LIMITS = {"float64": "support_fp64", "bfloat16": "support_bf16", "int64": "support_int64"}
"""What it says of its vendor's chips; of single kernels it says nothing. No Ascend has float64."""


def _dtypes(device: Any) -> tuple[str, ...]:
    """What its kernels may be asked for on this machine."""
    return tuple(
        one for one in (*FLOATS, *OTHERS) if one not in LIMITS or getattr(device, LIMITS[one])
    )


def _holds(condition: Callable[[], bool] | None = None) -> bool:
    """Whether a line of the registrar is meant for this torch."""
    return condition is None or bool(condition())


def _holding(function: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    return lambda: function


def _silu_and_mul() -> Callable[..., Any]:
    from flag_gems.fused import silu_and_mul as fused

    def silu_and_mul(x: Any) -> Any:
        return fused(*x.chunk(2, -1))

    return silu_and_mul


def _gelu_and_mul() -> Callable[..., Any]:
    from flag_gems.fused import gelu_and_mul as fused

    def gelu_and_mul(x: Any, approximate: str = "none") -> Any:
        return fused(*x.chunk(2, -1), approximate)

    return gelu_and_mul


def _rms_norm() -> Callable[..., Any]:
    from flag_gems.fused import fused_add_rms_norm
    from flag_gems.ops import rms_norm as plain

    def rms_norm(x: Any, weight: Any, epsilon: float = 1e-6, residual: Any = None) -> Any:
        if residual is None:
            return plain(x, weight.shape, weight, epsilon)
        # It writes both of its arguments.
        return fused_add_rms_norm(x.clone(), residual.clone(), weight.shape, weight, epsilon)

    return rms_norm


def _rotary_embedding() -> Callable[..., Any]:
    import torch
    from flag_gems.fused import apply_rotary_pos_emb

    def rotary_embedding(
        query: Any, key: Any, cos: Any, sin: Any, interleaved: bool = False
    ) -> tuple[Any, Any]:
        size, positions = 2 * cos.shape[-1], torch.arange(query.shape[0], device=query.device)
        heads = (query[..., :size], key[..., :size])
        turned = apply_rotary_pos_emb(*heads, cos, sin, positions, interleaved)
        if size == query.shape[-1]:
            return turned[0], turned[1]
        rests = (query[..., size:], key[..., size:])
        joined = [torch.cat(pair, -1) for pair in zip(turned, rests, strict=True)]
        return joined[0], joined[1]

    return rotary_embedding


def _topk_softmax() -> Callable[..., Any]:
    import torch
    from flag_gems.fused import topk_softmax as fused

    def topk_softmax(gating: Any, topk: int, renormalize: bool = False) -> tuple[Any, Any]:
        shape = (gating.shape[0], topk)
        weights = torch.empty(shape, dtype=torch.float32, device=gating.device)
        experts, rows = (torch.empty(shape, dtype=torch.int32, device=gating.device) for _ in "ab")
        fused(weights, experts, rows, gating, renormalize)
        return weights, experts

    return topk_softmax


def _moe_align_block_size() -> Callable[..., Any]:
    from flag_gems.fused import moe_align_block_size as fused

    def moe_align_block_size(
        topk_ids: Any, block_size: int, num_experts: int
    ) -> tuple[Any, Any, Any]:
        sorted_ids, expert_ids, num_padded = fused(topk_ids, block_size, num_experts)
        return sorted_ids, expert_ids, num_padded

    return moe_align_block_size


def _moe_sum() -> Callable[..., Any]:
    from flag_gems.fused import moe_sum as fused

    def moe_sum(x: Any) -> Any:
        out = x.new_empty(x.shape[0], x.shape[2])
        fused(x, out)
        return out

    return moe_sum


def _fused_moe() -> Callable[..., Any]:
    from flag_gems.fused import outplace_fused_experts

    def fused_moe(x: Any, w1: Any, w2: Any, topk_weights: Any, topk_ids: Any) -> Any:
        return outplace_fused_experts(x, w1, w2, topk_weights, topk_ids)

    return fused_moe

"""torch_npu's own fused kernels, called as its recorded schemas say (2.13).

Chips are those that the vendor's API pages name for all of them: Atlas A2 and A3. Of the products
before, some have some (an Atlas 300I Duo adds and normalises, and rotates by halves only).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jumar.contracts.errors import OperatorUnavailable
from jumar.operators.providers.base import FLOATS, Implementation

A2_AND_A3 = {"chip": ("Ascend910B*", "Ascend910_93*")}


class TorchNPU:
    """See `Provider`."""

    name = "torch_npu"

    def version(self) -> str | None:
        """The version of torch_npu."""
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("torch_npu")
        except PackageNotFoundError:
            return None

    def unavailable(self) -> str | None:
        """Without a torch that has npu devices."""
        import torch

        npu = getattr(torch, "npu", None)
        if npu is None:
            return "torch has no npu devices here: torch_npu is not loaded"
        return None if npu.is_available() else "torch_npu sees no NPU"

    def layers(self) -> Mapping[str, Implementation]:
        """Those that one or two of its kernels compute."""
        return {
            "silu_and_mul": _on_npu(_silu_and_mul),
            "gelu_and_mul": _on_npu(_gelu_and_mul),
            "rms_norm": _on_npu(_rms_norm),
            "rotary_embedding": _on_npu(_rotary_embedding),
            "topk_softmax": _on_npu(_topk_softmax),
            "attention_backend": _on_npu(_attention_backend),
        }

    def functions(self) -> Mapping[str, Implementation]:
        """None: its kernels for torch's operators are the device's own."""
        return {}


def _on_npu(make: Callable[[], Callable[..., Any]]) -> Implementation:
    return Implementation(make, FLOATS, ("npu",), A2_AND_A3)


def _silu_and_mul() -> Callable[..., Any]:
    import torch

    npu_swiglu = torch.ops.npu.npu_swiglu

    def silu_and_mul(x: Any) -> Any:
        return npu_swiglu(x, -1)

    return silu_and_mul


def _gelu_and_mul() -> Callable[..., Any]:
    import torch

    npu_geglu = torch.ops.npu.npu_geglu

    def gelu_and_mul(x: Any, approximate: str = "none") -> Any:
        # approximate: 0 is erf, 1 is tanh; it activates the right half unless told otherwise.
        return npu_geglu(x, -1, int(approximate == "tanh"), True)[0]

    return gelu_and_mul


def _rms_norm() -> Callable[..., Any]:
    import torch

    npu_rms_norm, npu_add_rms_norm = torch.ops.npu.npu_rms_norm, torch.ops.npu.npu_add_rms_norm

    def rms_norm(x: Any, weight: Any, epsilon: float = 1e-6, residual: Any = None) -> Any:
        if residual is None:
            return npu_rms_norm(x, weight, epsilon)[0]
        normalised, _, total = npu_add_rms_norm(x, residual, weight, epsilon)
        return normalised, total

    return rms_norm


def _rotary_embedding() -> Callable[..., Any]:
    import torch

    npu_rotary_mul = torch.ops.npu.npu_rotary_mul

    def rotary_embedding(
        query: Any, key: Any, cos: Any, sin: Any, interleaved: bool = False
    ) -> tuple[Any, Any]:
        size, mode = 2 * cos.shape[-1], "interleave" if interleaved else "half"
        if interleaved:
            cos, sin = cos.repeat_interleave(2, -1), sin.repeat_interleave(2, -1)
        else:
            cos, sin = torch.cat((cos, cos), -1), torch.cat((sin, sin), -1)
        cos, sin = cos[None, :, None], sin[None, :, None]  # four axes are asked for

        def turned(x: Any) -> Any:
            head = npu_rotary_mul(x[None, ..., :size], cos, sin, mode)[0]
            return head if size == x.shape[-1] else torch.cat((head, x[..., size:]), -1)

        return turned(query), turned(key)

    return rotary_embedding


def _topk_softmax() -> Callable[..., Any]:
    import torch

    npu_moe_gating_top_k_softmax = torch.ops.npu.npu_moe_gating_top_k_softmax

    def topk_softmax(gating: Any, topk: int, renormalize: bool = False) -> tuple[Any, Any]:
        weights, experts, _ = npu_moe_gating_top_k_softmax(gating.float(), None, topk)
        return (weights / weights.sum(-1, keepdim=True) if renormalize else weights), experts

    return topk_softmax


def _attention_backend() -> Callable[..., Any]:
    def attention_backend(use_mla: bool = False, use_sparse: bool = False) -> str:
        if use_mla or use_sparse:
            kind = "Latent" if use_mla else "Sparse"
            raise OperatorUnavailable(
                f"{kind.capitalize()} attention by torch_npu is not made yet."
            )
        return "jumar.vllm.attention.ascend.AscendBackend"

    return attention_backend

"""vLLM's intermediate representation: Jumar as one of its providers, by what its process decided.

`RMSNorm` itself holds its implementation (`layers`). Whoever else asks for these operators
(`GemmaRMSNorm`, norms of single models, compiled passes) comes here. vLLM's own code computes calls
with another size of variance, without weight, or with a weight of another dtype: the layer
operator has none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from jumar.contracts.errors import RunFailed
from jumar.vllm.operators import IR_PROVIDER
from jumar.vllm.operators.process import Process
from vllm import ir

PRIORITY = [IR_PROVIDER, "native"]


def _nothing_yet(*args: Any) -> Any:
    raise RunFailed("vllm.ir asks for a norm, and nothing was decided in this process yet.")


_norm: Callable[..., Any] = _nothing_yet


def hold(here: Process) -> None:
    """What the provider computes with from now on."""
    global _norm
    _norm = here.hold("rms_norm")


def _plain(
    x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> bool:
    return variance_size is None and weight is not None and weight.dtype == x.dtype


def _plain_sum(
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> bool:
    return _plain(x, weight, epsilon, variance_size)


@ir.ops.rms_norm.register_impl(IR_PROVIDER, supports_args=_plain)
def rms_norm(
    x: Tensor, weight: Tensor | None, epsilon: float, variance_size: int | None = None
) -> Tensor:
    """See `jumar.operators.layers.norms`."""
    return _norm(x, weight, epsilon)


@ir.ops.fused_add_rms_norm.register_impl(IR_PROVIDER, supports_args=_plain_sum)
def fused_add_rms_norm(
    x: Tensor,
    x_residual: Tensor,
    weight: Tensor | None,
    epsilon: float,
    variance_size: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The same with a residual."""
    normalised, total = _norm(x, weight, epsilon, x_residual)
    return normalised, total

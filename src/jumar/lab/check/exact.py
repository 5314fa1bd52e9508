"""The reference: the CPU in float64, never the implementation under test."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jumar.lab.check.calls import Answer, Call, answered

if TYPE_CHECKING:
    from torch import Tensor

TRIALS = 8
"""Times that inputs are moved within their rounding, to see what that does to the answer."""
ROOM = 4.0
"""How much more than the worst of these trials, and of the CPU's own error, is still legal."""


def wide(function: Callable[..., Any], call: Call) -> Answer | None:
    """The answer in float64; None where the CPU has no such kernel."""
    try:
        return answered(function, call.moved(widened, _wide_dtype))
    except (NotImplementedError, RuntimeError, TypeError, ValueError, IndexError):
        return None


def widened(flat: Tensor) -> Tensor:
    """Floating point in 64 bits per part, exactly; all else as it is, copied."""
    import torch

    if flat.is_complex():
        return flat.to(torch.complex128, copy=True)
    return flat.to(torch.float64, copy=True) if flat.is_floating_point() else flat.clone()


def magnified(
    function: Callable[..., Any], call: Call, take: Callable[[Answer], Tensor]
) -> Tensor | None:
    """How far the exact answer moves when the inputs move within their own rounding.

    That is what a backward stable algorithm may be off by (Higham, Accuracy and Stability of
    Numerical Algorithms, section 1.5), whatever the operator. `take` picks a real tensor out of an
    answer. None where there is no float64 kernel.
    """
    import torch

    exact = wide(function, call)
    if exact is None:
        return None
    centre = take(exact).double()
    far = torch.zeros_like(centre)
    random = torch.Generator().manual_seed(0)
    for _ in range(TRIALS):
        near = wide(function, call.moved(lambda flat: _shaken(flat, random)))
        if near is None or take(near).shape != centre.shape:
            return None
        off = (take(near).double() - centre).abs()
        far = torch.maximum(far, torch.nan_to_num(off, nan=0.0))
    return far


def _shaken(flat: Tensor, random: Any) -> Tensor:
    """Each number times 1 + d, |d| at most a unit roundoff of its dtype; in float64."""
    import torch

    if not flat.is_floating_point():
        return flat.clone()
    unit = torch.finfo(flat.dtype).eps / 2
    draw = torch.rand(flat.shape, dtype=torch.float64, generator=random).mul_(2).sub_(1)
    return flat.double() * (1 + unit * draw)


def _wide_dtype(leaf: Any) -> Any:
    """An argument that asks for a narrow dtype asks for the wide one."""
    import torch

    if isinstance(leaf, torch.dtype) and leaf.is_floating_point:
        return torch.float64
    return leaf

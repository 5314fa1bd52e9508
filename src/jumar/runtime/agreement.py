"""Whether two outputs of a module are the same but for rounding, and if not, where they differ."""

from __future__ import annotations

import math
from typing import Any

TOLERANCE = {"float64": 1e-6, "float32": 1e-3, "float16": 1e-2, "bfloat16": 4e-2}
"""Largest difference over the largest number of the eager output, by its type.

A graph may fuse and reorder: a sum of n numbers in another order differs by up to about n units in
the last place (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2). These bounds
leave room for some hundred terms; a wrong operator is off by far more.
"""


def disagreement(wanted: Any, got: Any) -> str | None:
    """What is wrong with `got`, in words; None where it agrees with `wanted`.

    Tensors are compared wherever they stand in tuples, lists, dicts and model outputs.
    """
    from torch import Tensor
    from torch.utils._pytree import tree_flatten

    ours, theirs = _plain(wanted), _plain(got)
    left, left_structure = tree_flatten(ours)
    right, right_structure = tree_flatten(theirs)
    if left_structure != right_structure:
        return "another structure of outputs"
    for number, (a, b) in enumerate(zip(left, right, strict=True)):
        if isinstance(a, Tensor) and (reason := _apart(a, b)):
            return f"output {number}: {reason}"
    return None


def _plain(output: Any) -> Any:
    """A model output (a dataclass or a mapping of its own) as a tuple of its fields."""
    return output.to_tuple() if hasattr(output, "to_tuple") else output


def _apart(a: Any, b: Any) -> str | None:
    import torch

    if a.shape != b.shape or a.dtype != b.dtype:
        return f"{tuple(b.shape)} {b.dtype}, not {tuple(a.shape)} {a.dtype}"
    if not a.is_floating_point():
        return None if torch.equal(a.cpu(), b.cpu()) else "other numbers"
    if a.numel() == 0:
        return None
    wanted, got = a.detach().cpu().double(), b.detach().cpu().double()
    if not torch.equal(wanted.isfinite(), got.isfinite()):
        return "NaN or infinity where eager has a number"
    scale = wanted[wanted.isfinite()].abs().max().item() if wanted.isfinite().any() else 0.0
    worst = torch.nan_to_num(got - wanted, 0.0, 0.0, 0.0).abs().max().item()
    relative = worst / scale if scale else (math.inf if worst else 0.0)
    limit = TOLERANCE.get(str(a.dtype).removeprefix("torch."), 1e-3)
    return f"by {relative:.2g} of the largest number, over {limit:g}" if relative > limit else None

"""Root mean square normalisation (Zhang and Sennrich, arXiv:1910.07467)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jumar.operators.layers.base import Case, Draw, LayerOperator, wide


def rms_norm(x: Any, weight: Any, epsilon: float = 1e-6, residual: Any = None) -> Any:
    """`z / sqrt(mean(z**2) + epsilon) * weight` over the last axis, z = x + residual.

    `x`, `residual` (..., d), `weight` (d). With a residual the result is a pair: normalised, z.
    """
    total = wide(x) if residual is None else wide(x) + wide(residual)
    mean = (total * total).sum(-1, keepdim=True) / total.shape[-1]
    normalised = total / (mean + epsilon).sqrt() * wide(weight)
    return normalised if residual is None else (normalised, total)


SHAPES = {
    "one row": (1, 64),
    "no rows": (0, 64),
    "several axes": (2, 3, 32),
    "one past a power of two": (5, 129),
    "wide": (3, 5120),
    "one column": (4, 1),
}


def _cases(draw: Draw) -> Iterator[Case]:
    for label, shape in SHAPES.items():
        x, weight = draw.normal(*shape), draw.normal(shape[-1])
        yield Case(label, (x, weight, 1e-6))
        yield Case(f"{label}, residual", (x, weight, 1e-6, draw.normal(*shape)))
    yield Case("zeros", (draw.normal(2, 32) * 0, draw.normal(32), 1e-5))
    yield Case("small values", (draw.normal(2, 32, scale=1e-3), draw.normal(32), 1e-6))
    yield Case("not contiguous", (draw.normal(48, 6).T, draw.normal(48), 1e-6))


OPERATORS = (LayerOperator(rms_norm, _cases),)

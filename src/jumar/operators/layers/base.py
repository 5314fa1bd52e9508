"""What a layer operator is: a signature, a formula in float64, inputs to check it with, limits.

The golden function computes from the formula alone, on the CPU, and shares no code with any
provider. It takes what the operator takes and gives what it gives, in float64.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Tolerance(NamedTuple):
    """A result may be off by `absolute + relative * |golden|`."""

    relative: float
    absolute: float


ROUNDED_ONCE: Mapping[str, Tolerance] = {
    "float32": Tolerance(1e-5, 2e-6),
    "float16": Tolerance(2e-3, 1e-5),
    "bfloat16": Tolerance(1.6e-2, 1e-5),
}
"""Computed in float32 and rounded to the dtype at the end: two of its smallest relative steps."""

EXACT: Mapping[str, Tolerance] = dict.fromkeys(ROUNDED_ONCE, Tolerance(0, 0))


class Case(NamedTuple):
    """One call to check; the label says what is particular about it. Tensors lie on the CPU."""

    label: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = {}  # noqa: RUF012 - never written


class Draw:
    """Seeded random tensors in one dtype."""

    def __init__(self, dtype: str, seed: int = 0) -> None:
        import torch

        self.dtype = getattr(torch, dtype)
        self._generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int, scale: float = 1.0) -> Any:
        """Normally distributed, in the dtype."""
        import torch

        drawn = torch.randn(*shape, generator=self._generator)
        return (drawn * scale).to(self.dtype)

    def integers(self, high: int, *shape: int) -> Any:
        """From 0 to `high` - 1, int32."""
        import torch

        return torch.randint(high, shape, generator=self._generator, dtype=torch.int32)

    def distinct(self, rows: int, columns: int, count: int | None = None) -> Any:
        """Per row, `count` different whole numbers below `columns` in random order, int32."""
        import torch

        order = torch.rand(rows, columns, generator=self._generator).argsort(-1)
        return order[:, : columns if count is None else count].int()


@dataclass(frozen=True)
class LayerOperator:
    """One layer operator: the name, the arguments and the docstring are those of `golden`.

    `cases` draws the inputs of a check; none where there are no numbers to compare. `comparable`
    brings results that may differ in ways the operator leaves open (order, unused space) into one
    form.
    """

    golden: Callable[..., Any]
    cases: Callable[[Draw], Iterator[Case]] = field(default=lambda draw: iter(()))
    tolerances: Mapping[str, Tolerance] = field(default_factory=lambda: ROUNDED_ONCE)
    comparable: Callable[[Any, Case], Any] = field(default=lambda results, case: results)

    @property
    def name(self) -> str:
        """What models ask for."""
        return self.golden.__name__

    @property
    def signature(self) -> inspect.Signature:
        """The arguments that every implementation takes."""
        return inspect.signature(self.golden)


def wide(tensor: Any) -> Any:
    """A copy on the CPU in float64."""
    return tensor.detach().cpu().double()

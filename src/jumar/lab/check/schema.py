"""Calls made of nothing but a schema, for operators that no OpInfo calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import TYPE_CHECKING, Any

from jumar.lab.check.adversarial import padded
from jumar.lab.check.calls import Call

if TYPE_CHECKING:
    from torch import Tensor

SHAPES = ((4, 5), (5,), (2, 4, 5), (2, 3, 6, 6), (5, 5))
"""Shapes of all tensors of a call, tried in turn."""
NUMBERS: dict[str, tuple[Any, ...]] = {
    "int": (0, 1),
    "SymInt": (0, 1),
    "number": (1,),
    "float": (0.5,),
    "bool": (False, True),
    "Device": (),
    "ScalarType": (),
}
"""Values of arguments without a default, tried in turn."""
ENOUGH = 6


def made_up(op: Any, dtype: Any) -> Iterator[Call]:
    """Calls that the schema allows; most will be refused by the CPU, and those are left out."""
    import torch

    generator = torch.Generator().manual_seed(0)
    for shape in SHAPES:
        choices = [
            _choices(argument, shape, dtype, generator)
            for argument in op._schema.arguments
            if not argument.has_default_value() or argument.is_out
        ]
        names = [
            argument
            for argument in op._schema.arguments
            if not argument.has_default_value() or argument.is_out
        ]
        if not all(choices):
            return
        for values in list(product(*choices))[:ENOUGH]:
            args = tuple(v for a, v in zip(names, values, strict=True) if not a.kwarg_only)
            kwargs = {a.name: v for a, v in zip(names, values, strict=True) if a.kwarg_only}
            yield Call(args, kwargs).cloned()


def _choices(argument: Any, shape: tuple[int, ...], dtype: Any, generator: Any) -> tuple[Any, ...]:
    kind = str(argument.real_type)
    if kind.startswith("Optional["):
        kind = kind[len("Optional[") : -1]
    makers: dict[str, Callable[[], tuple[Any, ...]]] = {
        "Tensor": lambda: (_filled(shape, dtype, generator),),
        "List[Tensor]": lambda: ([_filled(shape, dtype, generator) for _ in range(2)],),
        "List[int]": lambda: ([1], [1, 1], list(shape)),
        "List[number]": lambda: ([1.0, 2.0],),
    }
    if argument.is_out and kind == "Tensor":
        return (padded(_filled(shape, dtype, generator)),)
    return makers[kind]() if kind in makers else NUMBERS.get(kind, ())


def _filled(shape: tuple[int, ...], dtype: Any, generator: Any) -> Tensor:
    """Numbers between 0.25 and 1, where most functions are defined; small whole numbers."""
    import torch

    if dtype.is_floating_point:
        drawn = torch.rand(shape, generator=generator, dtype=torch.float64)
        return (drawn * 0.75 + 0.25).to(dtype)
    return torch.randint(0, 2, shape, generator=generator).to(dtype)

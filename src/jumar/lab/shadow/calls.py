"""One call of an operator, with copies of its inputs from before it ran."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.lab.shadow import facts

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 2 << 30
"""Bytes of host memory for the float64 copies of weights that are kept from call to call."""


class Copies:
    """CPU copies of tensors: floating point in float64, exactly; all else as it is.

    Those of weights are kept, until an operator writes to them or their module gets others.
    """

    def __init__(self) -> None:
        self._weights: dict[int, weakref.ref[Tensor]] = {}
        self._kept: dict[int, dict[Any, Tensor]] = {}
        self._room = KEPT

    def add_weight(self, tensor: Tensor) -> None:
        """Its copies may be kept. What is not dense has no address, and is not compared."""
        if facts.is_dense(tensor):
            self._weights.setdefault(_address(tensor), weakref.ref(tensor))

    def forget(self, tensor: Tensor) -> None:
        """An operator has written to this memory."""
        if not facts.is_dense(tensor):
            return
        for copy in self._kept.pop(_address(tensor), {}).values():
            self._room += copy.nbytes

    def take(self, tensor: Tensor) -> Tensor:
        """A copy that nobody may write to."""
        address = _address(tensor)
        if not self._is_weight(address):
            self.forget(tensor)
            return _copy(tensor)
        place = (tensor.storage_offset(), tensor.shape, tensor.stride(), tensor.dtype)
        kept = self._kept.setdefault(address, {})
        if place not in kept:
            copy = _copy(tensor)
            if copy.nbytes > self._room:
                return copy
            kept[place], self._room = copy, self._room - copy.nbytes
        return kept[place]

    def _is_weight(self, address: int) -> bool:
        weight = self._weights.get(address, lambda: None)()
        return weight is not None and _address(weight) == address


@dataclass(frozen=True)
class Place:
    """Where a call is made, and of what: all that can be said of it without its numbers."""

    operator: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    """Of the first floating-point argument, else of the first tensor, else of what is asked."""
    layer: str | None

    @classmethod
    def of(cls, op: Any, leaves: list[Any], layer: str | None) -> Place:
        """Of a call with these arguments."""
        import torch

        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        asked = [leaf for leaf in leaves if isinstance(leaf, torch.dtype)]
        dtypes = [one.dtype for one in tensors] + asked
        first = [one for one in dtypes if one.is_floating_point] or dtypes
        return cls(
            operator=op.name(),
            shapes=tuple(tuple(one.shape) for one in tensors),
            dtype=str(first[0]).removeprefix("torch.") if first else "*",
            layer=layer,
        )


class Call:
    """An operator with its arguments as they were before it ran.

    `answers` computes it anew: on the CPU in a dtype of one's choice, or on the device.
    """

    def __init__(self, op: Any, args: Any, kwargs: Any, layer: str | None, copies: Copies) -> None:
        import torch
        from torch.utils._pytree import tree_flatten

        self.op = op
        self.leaves, self._spec = tree_flatten((args, dict(kwargs)))
        self.place = Place.of(op, self.leaves, layer)
        taken: dict[int, Tensor] = {}
        self._taken: list[Any] = [
            taken.setdefault(id(leaf), copies.take(leaf))
            if isinstance(leaf, torch.Tensor)
            else leaf
            for leaf in self.leaves
        ]

    @property
    def tensors(self) -> list[Tensor]:
        """The tensor arguments."""
        import torch

        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def inputs(self, *, like_given: bool) -> list[Any]:
        """Copies of all arguments that may be written to: in their own dtypes, or in float64."""
        import torch

        made: dict[int, Tensor] = {}

        def fresh(given: Any, taken: Any) -> Any:
            if not isinstance(taken, torch.Tensor):
                return given
            if id(taken) not in made:
                made[id(taken)] = taken.to(given.dtype if like_given else taken.dtype, copy=True)
            return made[id(taken)]

        return [fresh(*pair) for pair in zip(self.leaves, self._taken, strict=True)]

    def on_cpu(self, dtype: Any = None) -> list[Any]:
        """What the CPU answers in `dtype`, or in the dtypes that were given.

        Raises what the CPU's kernel raises: NotImplementedError where there is none.
        """
        import torch

        writes = any(map(facts.is_written, self.op._schema.arguments))
        leaves = self.inputs(like_given=dtype is None) if writes or dtype is None else self._taken

        def moved(leaf: Any) -> Any:
            if isinstance(leaf, torch.device):
                return torch.device("cpu")
            if dtype is None:
                return leaf
            if isinstance(leaf, torch.dtype):
                return dtype if leaf.is_floating_point else leaf
            wide = isinstance(leaf, torch.Tensor) and leaf.is_floating_point()
            return leaf.to(dtype) if wide else leaf

        return self._run([moved(leaf) for leaf in leaves], pin_memory=False)

    def on_device(self, function: Callable[..., Any] | None = None) -> list[Any]:
        """What the device answers this time, on equal inputs."""
        import torch

        fresh: dict[int, Tensor] = {}

        def moved(given: Any, copy: Any) -> Any:
            if not isinstance(given, torch.Tensor):
                return given
            if id(copy) not in fresh:
                fresh[id(copy)] = copy.to(given.device)
            return fresh[id(copy)]

        copies = self.inputs(like_given=True)
        return self._run([moved(*pair) for pair in zip(self.leaves, copies, strict=True)], function)

    def terms(self, result: Any) -> int:
        """How many numbers are summed for one element."""
        args, kwargs = self.tree(self.leaves)
        return facts.terms(self.op, args, kwargs, result)

    def most_terms(self) -> int:
        """The same without a result: the largest dimension of an input."""
        return max((size for shape in self.place.shapes for size in shape), default=1)

    def outputs(self, result: Any) -> list[Any]:
        """What the call on the device has made."""
        args, kwargs = self.tree(self.leaves)
        return facts.outputs(self.op, args, kwargs, result)

    def written(self) -> list[Any]:
        """The tensors of the device that it writes to."""
        return facts.written(self.op, *self.tree(self.leaves))

    def returned(self, made: list[Any]) -> Any:
        """Its result, were these its outputs."""
        args, kwargs = self.tree(self.leaves)
        return facts.returned(self.op, args, kwargs, made)

    def is_tie(self, one: Any, other: Any) -> bool:
        """Whether two answers in positions point at equal values."""
        args, kwargs = self.tree(self._taken)
        return facts.is_tie(self.op, args, kwargs, one, other)

    def _run(
        self, leaves: list[Any], function: Callable[..., Any] | None = None, **changed: Any
    ) -> list[Any]:
        args, kwargs = self.tree(leaves)
        kwargs |= {key: value for key, value in changed.items() if key in kwargs}
        return facts.outputs(self.op, args, kwargs, (function or self.op)(*args, **kwargs))

    def tree(self, leaves: list[Any]) -> Any:
        """(args, kwargs) of these arguments."""
        from torch.utils._pytree import tree_unflatten

        return tree_unflatten(leaves, self._spec)


def _address(tensor: Tensor) -> int:
    return int(tensor.untyped_storage().data_ptr())


def _copy(tensor: Tensor) -> Tensor:
    import torch

    there = tensor.detach().resolve_conj().resolve_neg()
    wide = there.dtype
    if there.is_floating_point():
        wide = torch.float64
    elif there.is_complex():
        wide = torch.complex128
    host = there.cpu()
    return host.to(wide, copy=host is there or host.data_ptr() == tensor.data_ptr())

"""The reference of any operator of torch: the CPU's own kernel, copied there and back.

Results are those of the CPU, bit for bit: strides go along, arguments of one dtype that share
memory share it there too, and what the CPU's kernel writes or resizes is written back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.contracts.errors import InvalidValue, RunFailed
from jumar.operators.dispatcher import is_view, runs_on_cpu

CARRIERS = frozenset(
    {
        "aten::_copy_from",
        "aten::_copy_from_and_resize",
        "aten::_to_copy",
        "aten::copy_",
        "aten::empty.memory_format",
        "aten::empty_strided",
        "aten::resize_",
    }
)
"""What the way to the CPU and back is made of."""


def reference(op: Any, *, precision: str | None = None) -> Callable[..., Any]:
    """A kernel for any device that computes the overload `op` on the CPU.

    With `precision` (`float32`, `float64`) narrower floating point arguments are widened there, and
    results come back in the dtype that the operator gives.

    Raises:
        InvalidValue: nothing that the CPU could compute: a view, a carrier of the copies
            themselves, or an operator that the CPU has no kernel for.
    """
    why = unreferenced(op)
    if why:
        raise InvalidValue(f"{op.name()} has no reference: {why}.", param="operator")
    import torch

    wide = None if precision is None else getattr(torch, precision)
    written = [index for index, one in enumerate(op._schema.arguments) if _is_written(one)]

    def on_cpu(*args: Any, **kwargs: Any) -> Any:
        return _round_trip(op, written, wide, args, kwargs)

    return on_cpu


def unreferenced(op: Any) -> str | None:
    """Why `op` has no reference; None where it has one."""
    if op.name() in CARRIERS:
        return "the way to the CPU is made of it"
    if is_view(op):
        return "it gives a view, and computes nothing"
    if not runs_on_cpu(op):
        return "the CPU has no kernel for it"
    return None


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and argument.alias_info.is_write


def _round_trip(op: Any, written: list[int], wide: Any, args: Any, kwargs: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_flatten, tree_unflatten

    leaves, spec = tree_flatten((args, kwargs))
    trip = _Trip(op.name(), [one for one in leaves if isinstance(one, torch.Tensor)], leaves, wide)
    cpu_args, cpu_kwargs = tree_unflatten([trip.there(one) for one in leaves], spec)
    results, shape = tree_flatten(op(*cpu_args, **cpu_kwargs))
    names = [one.name for one in op._schema.arguments]
    for index in written:
        given = args[index] if index < len(args) else kwargs.get(names[index])
        for tensor in given if isinstance(given, list | tuple) else [given]:
            trip.write_back(tensor)
    dtypes = [None] * len(results) if wide is None else _dtypes(op, leaves, spec)
    backs = [trip.back(one, dtype) for one, dtype in zip(results, dtypes, strict=True)]
    return tree_unflatten(backs, shape)


def _dtypes(op: Any, leaves: list[Any], spec: Any) -> list[Any]:
    """The dtypes of the operator's results, which its meta kernel knows."""
    import torch
    from torch.utils._pytree import tree_leaves, tree_unflatten

    kinds = (torch.Tensor, torch.device)
    meta = [
        torch.device("meta")
        if isinstance(one, kinds[1])
        else one.to("meta")
        if isinstance(one, kinds[0])
        else one
        for one in leaves
    ]
    args, kwargs = tree_unflatten(meta, spec)
    return [getattr(one, "dtype", None) for one in tree_leaves(op(*args, **kwargs))]


class _Trip:
    """The arguments of one call on the CPU, and the device that they came from."""

    def __init__(self, name: str, tensors: list[Any], leaves: list[Any], wide: Any) -> None:
        self.name, self.wide = name, wide
        on_device = [one for one in tensors if one.device.type != "cpu"]
        self.device = _device(name, on_device, leaves)
        self.spans = [_Span(group, wide) for group in _sharing(on_device)]
        self.twins = {id(one): cpu for span in self.spans for one, cpu in span.twins}

    def there(self, leaf: Any) -> Any:
        """An argument as the CPU's kernel gets it."""
        import torch

        if isinstance(leaf, torch.Tensor):
            return self.twins.get(id(leaf), leaf)
        if isinstance(leaf, torch.device):
            return torch.device("cpu") if leaf.type == self.device.type else leaf
        if isinstance(leaf, torch.Generator) and leaf.device.type != "cpu":
            raise RunFailed(
                f"The reference of {self.name} cannot draw from a generator on {leaf.device}.",
                hint="Give a generator on the CPU, or none.",
            )
        return leaf

    def write_back(self, tensor: Any) -> None:
        """Put into an argument what the CPU's kernel wrote into its twin."""
        twin = self.twins.get(id(tensor))
        if twin is None:
            return
        if twin.shape != tensor.shape:
            tensor.resize_(twin.shape)
        if twin.stride() != tensor.stride():
            tensor.as_strided_(twin.shape, twin.stride())
        tensor.copy_(twin)

    def back(self, result: Any, dtype: Any = None) -> Any:
        """A result on the device; an argument, or a view of one, stays that."""
        import torch

        if not isinstance(result, torch.Tensor):
            return result
        if result.layout != torch.strided:
            return result.to(self.device)
        for span in self.spans:
            for tensor, twin in span.twins:
                if result is twin:
                    return tensor
            if result.numel() and _start(result) == _start(span.flat):
                return span.on_device(result)
        return _moved(result if dtype is None else result.to(dtype), self.device)


class _Span:
    """Tensors that share memory, and the stretch of it that they lie in, on the CPU as `flat`."""

    def __init__(self, tensors: list[Any], wide: Any) -> None:
        self.first = tensors[0]
        self.low = min(one.storage_offset() for one in tensors)
        high = max(one.storage_offset() + _extent(one) for one in tensors)
        flat = self.first.as_strided((high - self.low,), (1,), self.low).cpu()
        self.flat = flat.to(wide) if wide is not None and _is_narrow(flat, wide) else flat
        self.twins = [
            (one, self.flat.as_strided(one.shape, one.stride(), one.storage_offset() - self.low))
            for one in tensors
        ]

    def on_device(self, view: Any) -> Any:
        """The same view of the device's memory."""
        offset = view.storage_offset() + self.low
        return self.first.as_strided(view.shape, view.stride(), offset)


def _sharing(tensors: list[Any]) -> list[list[Any]]:
    """The tensors by the memory and dtype that they share; empty ones share none."""
    groups: dict[Any, list[Any]] = {}
    for one in {id(tensor): tensor for tensor in tensors}.values():
        key = (_start(one), one.dtype) if one.numel() else id(one)
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _start(tensor: Any) -> Any:
    return tensor.untyped_storage().data_ptr()


def _extent(tensor: Any) -> int:
    """How many elements lie from the first of a tensor to its last."""
    if not tensor.numel():
        return 0
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return int(1 + sum((size - 1) * stride for size, stride in steps))


def _moved(tensor: Any, device: Any) -> Any:
    """A copy on `device` with the same strides."""
    flat = tensor.as_strided((_extent(tensor),), (1,), tensor.storage_offset()).to(device)
    return flat.as_strided(tensor.shape, tensor.stride())


def _device(name: str, tensors: list[Any], leaves: list[Any]) -> Any:
    """Where the call was made: of its tensors, or what its `device=` says."""
    import torch

    devices = {one.device for one in tensors}
    if len(devices) > 1:
        raise RunFailed(f"{name} got tensors on {' and '.join(sorted(map(str, devices)))}.")
    named = [one for one in leaves if isinstance(one, torch.device) and one.type != "cpu"]
    return next(iter([*devices, *named]), torch.device("cpu"))


def _is_narrow(tensor: Any, wide: Any) -> bool:
    return bool(tensor.is_floating_point() and tensor.dtype.itemsize < wide.itemsize)

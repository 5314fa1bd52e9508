"""aten on npu: the CPU's kernels on CPU aliases of npu memory."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from jumar.emulator.uncompiled import core, memory

VIEWS = (
    *("as_strided", "view", "_reshape_alias", "view.dtype", "unfold", "view_as_real"),
    *("view_as_complex", "alias", "detach", "set_.source_Storage_storage_offset"),
    *("set_.source_Tensor", "set_.source_Storage"),
)
"""Operators that only move sizes, strides and storages: the CPU's kernels do for npu too."""
MIXED = ("aten::index", "aten::index_put_", "aten::index_put", "aten::_index_put_impl_")
"""Those that take index tensors on the CPU beside data on a card."""

_diverted: dict[str, Any] = {}


def register() -> list[Any]:
    """Register all kernels; the libraries have to be kept."""
    import torch

    rest = torch.library.Library("_", "IMPL")
    rest.fallback(run, "PrivateUse1")
    rest.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    aten = torch.library.Library("aten", "IMPL")
    for name in VIEWS:
        op = _overload(f"aten::{name}")
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CPU"):
            aten.impl(name, _view(op), "PrivateUse1")
    for name, kernel in DIRECT.items():
        aten.impl(name, kernel, "PrivateUse1")
    for key in ("Conjugate", "Negative"):
        aten.impl("_copy_from", torch.library.fallthrough_kernel, key)
    return [rest, aten]


def divert(names: list[str]) -> None:
    """Send operators that torch would take apart to `run`."""
    import torch

    for name in names:
        has = torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")
        if name in _diverted or has:
            continue
        op, space = _overload(name), name.split("::")[0]
        _diverted[name] = torch.library.Library(space, "IMPL")
        _diverted[name].impl(
            name.split("::")[1], lambda *a, _op=op, **k: run(_op, *a, **k), "PrivateUse1"
        )


def restore(names: list[str]) -> None:
    """Undo `divert`."""
    for name in names:
        if name in _diverted:
            _diverted.pop(name)._destroy()


@cache
def _overload(name: str) -> Any:
    import torch

    space, _, rest = name.partition("::")
    packet, _, overload = rest.partition(".")
    return getattr(getattr(getattr(torch.ops, space), packet), overload or "default")


def _view(op: Any) -> Any:
    import torch

    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    return lambda *args, **kwargs: op.redispatch(keys, *args, **kwargs)


def ask(name: str, device: int, inputs: list[Any]) -> bool:
    """Whether a fault wants the outputs; it may raise, wait or end the process before."""
    import torch

    watched = core.state.watched
    if not watched or getattr(core.state.thread, "deciding", False):
        return False
    if "*" not in watched and name.split(".")[0] not in watched:
        return False
    core.state.thread.deciding = True
    try:
        return bool(torch.ops.jumar_emulator.before(name, device, inputs))
    finally:
        core.state.thread.deciding = False


def tell(outputs: list[Any]) -> None:
    """Let the faults that `ask` found write into the outputs."""
    import torch

    torch.ops.jumar_emulator.after(outputs)


class Call:
    """One operator's arguments on their way to the CPU, and its results on their way back."""

    def __init__(self, op: Any) -> None:
        self.name = op.name()
        self.device: int | None = None
        self.pairs: list[tuple[Any, Any]] = []
        self.inputs: list[Any] = []
        self.host_data = self.result_on_cpu = False

    def into(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, list | tuple):
            return type(value)(self.into(one) for one in value)
        if isinstance(value, torch.device):
            return self._place(value)
        return value

    def output(self, value: Any) -> Any:
        """An argument that the kernel writes: an empty one has to be of a kind that can grow."""
        import torch

        cpu = self.into(value)
        if not isinstance(value, torch.Tensor) or value.numel() or value.device.type != "npu":
            return cpu
        fresh = torch.empty(value.shape, dtype=value.dtype)
        self.pairs = [(npu, fresh if npu is value else old) for npu, old in self.pairs]
        return fresh

    def _tensor(self, tensor: Any) -> Any:
        if tensor.device.type != "npu":
            self.host_data |= tensor.dim() > 0
            return tensor
        index = tensor.device.index
        if self.device not in (None, index):
            self._refuse(f"npu:{self.device} and npu:{index}")
        self.device = index
        self.inputs.append(self._alias(tensor))
        return self.inputs[-1]

    def _alias(self, tensor: Any) -> Any:
        """One for each tensor: `x @ x` gives the kernel the same one twice."""
        for npu, cpu in self.pairs:
            if npu is tensor:
                return cpu
        self.pairs.append((tensor, memory.to_cpu(tensor)))
        return self.pairs[-1][1]

    def _place(self, device: Any) -> Any:
        import torch

        self.result_on_cpu = device.type != "npu"
        if not self.result_on_cpu:
            self.device = core.current_device() if device.index is None else device.index
            core.check_index(self.device)
        return torch.device("cpu") if device.type == "npu" else device

    def _refuse(self, devices: str) -> None:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{devices}! (when checking arguments of {self.name})"
        )

    def start(self) -> bool:
        """All arguments are in. Returns whether a fault wants the outputs."""
        import torch

        core.touch()
        self.device = core.current_device() if self.device is None else self.device
        if self.host_data and self.pairs and self.name.split(".")[0] not in MIXED:
            self._refuse(f"npu:{self.device} and cpu")
        core.raise_deferred(self.device)
        if core.state.trace is not None:
            core.state.trace.append(self.name)
        if not core.state.bf16 and any(c.dtype == torch.bfloat16 for _, c in self.pairs):
            raise RuntimeError(
                f"call acl{self.name.split('::')[1]} failed, error code is 161002\nEZ1001: Tensor "
                "not implemented for DT_BFLOAT16 (emulated chip without bfloat16)"
            )
        return ask(self.name, self.device, self.inputs)

    def back(self, value: Any) -> Any:
        import torch

        if isinstance(value, list | tuple):
            return type(value)(self.back(one) for one in value)
        if not isinstance(value, torch.Tensor) or self.result_on_cpu:
            return value
        for npu, cpu in self.pairs:
            if cpu is value:
                return npu
        return memory.to_npu(value, self.device or 0)

    def settle(self) -> None:
        """Give tensors of `out=` that the CPU's kernel resized their new memory."""
        import torch

        keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
        for npu, cpu in self.pairs:
            moved = cpu.numel() and npu.data_ptr() != cpu.data_ptr()
            if npu.shape != cpu.shape or moved:
                new = memory.to_npu(cpu, self.device or 0)
                torch.ops.aten.set_.source_Tensor.redispatch(keys, npu, new)


@cache
def _names(op: Any) -> tuple[frozenset[str], frozenset[str]]:
    """The arguments that are written as `out=`, and all of them."""
    listed = op._schema.arguments
    return frozenset(one.name for one in listed if one.is_out), frozenset(
        one.name for one in listed
    )


def run(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The fallback."""
    import torch

    call = Call(op)
    given = [call.into(one) for one in args]
    outputs, takes = _names(op)
    named = {
        key: (call.output if key in outputs else call.into)(one) for key, one in kwargs.items()
    }
    wants = call.start()
    if "generator" in takes and named.get("generator") is None:
        named["generator"] = core.state.generators[call.device or 0]
    result = op(*given, **named)
    if wants:
        listed = result if isinstance(result, list | tuple) else [result]
        tell([one for one in listed if isinstance(one, torch.Tensor)])
    call.settle()
    return call.back(result)


# ---- kernels that the fallback cannot stand in for -----------------------------------------------


def _index(device: Any) -> int:
    index = core.current_device() if device is None or device.index is None else device.index
    core.check_index(index)
    core.touch()
    return int(index)


def _made(make: Callable[[str], Any], index: int) -> Any:
    """A new tensor; whether it fits is known before the host has to find the memory."""
    memory.cards[index].room_for(make("meta").untyped_storage(), index)
    return memory.to_npu(make("cpu"), index)


def _empty(
    size: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    memory_format: Any = None,
) -> Any:
    import torch

    index = _index(device)
    ask("aten::empty.memory_format", index, [])
    order = memory_format or torch.contiguous_format
    return _made(
        lambda where: torch.empty(size, dtype=dtype, memory_format=order, device=where), index
    )


def _empty_strided(
    size: Any,
    stride: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
) -> Any:
    import torch

    index = _index(device)
    ask("aten::empty_strided", index, [])
    return _made(lambda where: torch.empty_strided(size, stride, dtype=dtype, device=where), index)


def _copy_from(source: Any, target: Any, non_blocking: bool = False) -> Any:
    index = (target if target.device.type == "npu" else source).device.index
    core.raise_deferred(index)
    if core.state.trace is not None:
        core.state.trace.append("aten::_copy_from")
    one, other = (memory.to_cpu(t) if t.device.type == "npu" else t for t in (source, target))
    wants = ask("aten::_copy_from", index, [one, other])
    other.copy_(one)
    if wants:
        tell([other])
    return target


def _copy_from_and_resize(source: Any, target: Any) -> Any:
    target.resize_(source.shape)
    return _copy_from(source, target)


def _resize(tensor: Any, size: Any, *, memory_format: Any = None) -> Any:
    import torch

    if tuple(tensor.shape) == tuple(size):
        return tensor
    old = memory.to_cpu(tensor).reshape(-1)
    new = torch.empty(size, dtype=tensor.dtype)
    count = min(new.numel(), old.numel())
    new.view(-1)[:count].copy_(old[:count])
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
    made = memory.to_npu(new, tensor.device.index)
    torch.ops.aten.set_.source_Tensor.redispatch(keys, tensor, made)
    return tensor


def _local_scalar_dense(tensor: Any) -> Any:
    core.raise_deferred(tensor.device.index)
    value = memory.to_cpu(tensor).clone()
    if ask("aten::_local_scalar_dense", tensor.device.index, [value]):
        tell([value])
    return value.item()


def _to_copy(
    tensor: Any,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:
    """torch's own asks for pinned memory, which there is none of."""
    import torch

    order = memory_format or torch.preserve_format
    made = torch.empty_like(tensor, dtype=dtype, device=device, memory_format=order)
    return made.copy_(tensor)


def _convolution(*args: Any) -> Any:
    return run(_overload("aten::convolution"), *args)


def _record_stream(tensor: Any, stream: Any) -> None:
    """Nothing runs late."""


DIRECT = {
    "empty.memory_format": _empty,
    "empty_strided": _empty_strided,
    "_copy_from": _copy_from,
    "_copy_from_and_resize": _copy_from_and_resize,
    "resize_": _resize,
    "_local_scalar_dense": _local_scalar_dense,
    "_to_copy": _to_copy,
    "convolution_overrideable": _convolution,
    "record_stream": _record_stream,
}

"""The flight recorder: whatever a process dies in, the name of the operator is left behind.

with recorder("flight", device="npu:0", after=torch.npu.synchronize):
    model(x)
last("flight")          # in the parent: the call that it raised, died or hung in
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.lab.recording import Call, Recording, first_calls, last
from jumar.lab.shadow.layers import Layers

__all__ = ["Call", "first_calls", "last", "recorder"]


@contextmanager
def recorder(
    path: str | Path, *, device: str, after: Callable[[], object] = lambda: None
) -> Iterator[None]:
    """Write every operator of the block that works on `device` to `path`, before it is called.

    `after` is called behind each of them, as its last part: where it waits for the device, an error
    which the device tells late falls on its own operator. That makes the block slower, and hides
    races.
    """
    recording = Recording(path)
    try:
        with Layers(lambda module: None) as layers, _mode(recording, device, after, layers):
            yield
    finally:
        recording.close()


def _mode(recording: Recording, device: str, after: Callable[[], object], layers: Layers) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    from jumar.operators.dispatcher import device_key, has_kernel

    kind, key = torch.device(device).type, device_key(device)

    class Mode(TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self, op: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            kwargs = kwargs or {}
            leaves = tree_leaves((args, kwargs))
            if not any(_on(leaf, kind) for leaf in leaves):
                return op(*args, **kwargs)
            if op._can_decompose() and not has_kernel(op, key):
                with self:  # the device computes what it is made of
                    return op.decompose(*args, **kwargs)
            recording.begin(_call(op, args, kwargs, leaves, layers.current))
            result = op(*args, **kwargs)
            after()
            recording.end()
            return result

    return Mode()


def _on(leaf: Any, kind: str) -> bool:
    """Whether an argument lies on that kind of device, or is one."""
    import torch

    if isinstance(leaf, torch.Tensor):
        return bool(leaf.device.type == kind)
    return isinstance(leaf, torch.device) and leaf.type == kind


def _call(op: Any, args: Any, kwargs: Any, leaves: list[Any], layer: str | None) -> Call:
    import torch

    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    named = [f"{name}={_source(value)}" for name, value in kwargs.items()]
    return Call(
        operator=op.name(),
        shapes=[list(tensor.shape) for tensor in tensors],
        dtypes=[_dtype(tensor) for tensor in tensors],
        layer=layer,
        source=f"torch.ops.{op}({', '.join([*map(_source, args), *named])})",
    )


def _source(value: Any) -> str:
    """An argument as Python writes it."""
    import torch

    if isinstance(value, torch.Tensor):
        place = ", 'cpu'" if value.device.type == "cpu" else ""
        return f"tensor({list(value.shape)}, torch.{_dtype(value)}{place})"
    if isinstance(value, torch.device):
        return "'cpu'" if value.type == "cpu" else "device"
    if isinstance(value, torch.Generator):
        return "None"
    if isinstance(value, float):
        return f"float({str(value)!r})"  # infinity and NaN have no literal
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_source, value))}]"
    return repr(value)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")

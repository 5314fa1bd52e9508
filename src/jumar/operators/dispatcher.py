"""torch's dispatcher, as far as overrides need it: overloads by name, device keys, probes."""

from __future__ import annotations

from typing import Any

from jumar.contracts.errors import InvalidValue, did_you_mean


def overload(name: str) -> Any:
    """The `OpOverload` that `aten::mm` or `aten::add.Tensor` names.

    Raises:
        InvalidValue: there is none; with the overloads that there are, or the nearest names.
    """
    import torch

    space, _, rest = name.rpartition("::")
    bare = rest.split(".")[0]
    packet = getattr(getattr(torch.ops, space or "aten"), bare, None)
    overloads = {} if packet is None else _dispatched(packet)
    if not overloads:
        full = name if space else f"aten::{name}"
        hint = did_you_mean(full, torch._C._dispatch_get_all_op_names())
        raise InvalidValue(f"torch has no operator {name!r}.", hint=hint, param="operator")
    if name not in overloads:
        hint = f"Valid: {', '.join(overloads)}."
        raise InvalidValue(f"{name!r} is no overload.", hint=hint, param="operator")
    return overloads[name]


def _dispatched(packet: Any) -> dict[str, Any]:
    """The overloads of a packet by full name; TorchScript's own, on numbers and lists, left out."""
    import torch

    listed = [getattr(packet, one) for one in packet.overloads()]
    every = {one.name(): one for one in listed}
    return {name: one for name, one in every.items() if torch._C._dispatch_has_kernel(name)}


def device_key(device: Any) -> str:
    """The dispatch key of a device's kernels: `PrivateUse1` for npu, `CUDA` for cuda.

    Raises:
        InvalidValue: torch has no such device.
    """
    import torch

    try:
        key: str = torch._C._dispatch_key_for_device(torch.device(device).type)
    except RuntimeError as error:
        raise InvalidValue(f"torch has no device {device!r}: {error}", param="device") from error
    return key


def has_kernel(op: Any, key: str) -> bool:
    """Whether a kernel of `op` is registered at `key` itself."""
    import torch

    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), key))


def runs_on_cpu(op: Any) -> bool:
    """Whether the CPU computes `op`, by a kernel of its own or in parts."""
    import torch

    return bool(torch._C._dispatch_has_computed_kernel_for_dispatch_key(op.name(), "CPU"))


def is_view(op: Any) -> bool:
    """Whether results are made to share memory with arguments that are not written."""
    return any(
        one.alias_info is not None and not one.alias_info.is_write for one in op._schema.returns
    )


def is_composite(op: Any) -> bool:
    """Whether torch has a version of `op` in parts, by which it is differentiated."""
    return has_kernel(op, "CompositeImplicitAutograd")


def probe(op: Any, device: Any) -> tuple[list[Any], dict[str, Any]]:
    """Arguments that bring a call of `op` as far as the device's kernel, and mean nothing to it.

    Tensors are empty float32 on `device`. What has a default is left out, apart from what tells
    the dispatcher the device.

    Raises:
        InvalidValue: an argument of a kind that nothing can be made up for.
    """
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    listed = op._schema.arguments
    kinds = [_kind(one) for one in listed]
    told = any(
        "Tensor" in kind and not one.has_default_value()
        for kind, one in zip(kinds, listed, strict=True)
    )
    for kind, one in zip(kinds, listed, strict=True):
        tells = kind == "Device" or ("Tensor" in kind and not told)
        if one.has_default_value() and not tells:
            continue
        value = _made_up(kind, device, op)
        if one.kwarg_only or len(args) < listed.index(one):
            kwargs[one.name] = value
        else:
            args.append(value)
    return args, kwargs


def _kind(argument: Any) -> str:
    """Its type without Optional: `Tensor`, `List[int]`, `ScalarType`."""
    kind = str(argument.real_type)
    return kind[len("Optional[") : -1] if kind.startswith("Optional[") else kind


def _made_up(kind: str, device: Any, op: Any) -> Any:
    import torch

    kinds: dict[str, Any] = {
        "Tensor": lambda: torch.empty(0, device=device),
        "List[Tensor]": lambda: [torch.empty(0, device=device)],
        "List[Optional[Tensor]]": lambda: [torch.empty(0, device=device)],
        "Storage": lambda: torch.empty(0, device=device).untyped_storage(),
        "Device": lambda: torch.device(device),
        "Generator": lambda: None,
        "ScalarType": lambda: torch.float32,
        "Layout": lambda: torch.strided,
        "MemoryFormat": lambda: torch.contiguous_format,
        "int": lambda: 0,
        "number": lambda: 0,
        "float": lambda: 0.0,
        "bool": lambda: False,
        "str": lambda: "",
    }
    if kind not in kinds and kind.startswith("List["):
        return []
    if kind not in kinds:
        raise InvalidValue(f"{op.name()} takes a {kind}: no call can prove an override of it.")
    return kinds[kind]()

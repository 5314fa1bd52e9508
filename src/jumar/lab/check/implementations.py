"""What is checked: an operator's implementation by a provider, on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.contracts.errors import DependencyMissing, InvalidValue, did_you_mean
from jumar.lab.check.base import Target
from jumar.lab.check.judging import Machine
from jumar.operators.providers import Implementation, provider, unfit


def find(target: Target, operator: str, dtype: str) -> Callable[..., Any]:
    """The function that computes an operator for a provider: called directly, never through a
    registration that something else could have replaced.

    Raises:
        InvalidValue: the provider has none, or not for this device or dtype; why is its message.
    """
    from jumar.operators.dispatcher import overload

    if target.provider == "device":
        function: Callable[..., Any] = overload(operator)
        return function
    listed = listed_by(target.provider)
    if operator not in listed:
        raise InvalidValue(
            f"{target.provider} has no {operator}.", hint=did_you_mean(operator, listed)
        )
    if why := unfit(listed[operator], target.device, dtype, fingerprint(target.device)):
        raise InvalidValue(f"{operator} by {target.provider} {why}.")
    return listed[operator].make()


def listed_by(name: str) -> dict[str, Implementation]:
    """What a provider has, overloads and layer operators.

    Raises:
        DependencyMissing: the provider cannot be used here.
        InvalidValue: there is no such provider.
    """
    one = provider(name)
    if why := one.unavailable():
        raise DependencyMissing(f"{name} cannot be used here: {why}.")
    return {**one.functions(), **one.layers()}


def fingerprint(device: str) -> dict[str, str]:
    """What evidence about a device is keyed by."""
    from jumar.devices import accelerators, place

    placed = place(device)
    accelerator = accelerators()[placed.device.kind]
    return {**accelerator.fingerprint(), "device_class": accelerator.device_class()}


def machine(device: str) -> Machine:
    """How to wait for a device, and how much of its memory tensors hold."""
    import torch

    from jumar.devices import accelerators, place

    placed = place(device)
    accelerator, index = accelerators()[placed.device.kind], placed.device.index
    module = None if placed.device.kind == "cpu" else torch.get_device_module(placed.device.kind)
    allocated = getattr(module, "memory_allocated", None)
    return Machine(
        device=placed.torch_device,
        synchronize=lambda: accelerator.synchronize(index),
        allocated=lambda: None if allocated is None else int(allocated(index)),
    )

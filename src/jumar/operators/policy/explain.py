"""Which line decides about an operator here, for one shape and dtype or for all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jumar.contracts.errors import DeviceUnavailable, InvalidValue, did_you_mean
from jumar.operators.policy.decide import Decision, Decisions, resolve
from jumar.operators.policy.files import effective
from jumar.operators.policy.layers import with_layers

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue

DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}
"""Short names of dtypes, as torch writes them."""


def explain(
    operator: str,
    catalogue: Catalogue,
    *,
    device: str = "cpu",
    shape: str | None = None,
    dtype: str | None = None,
    assumed: Mapping[str, str] | None = None,
) -> Decision:
    """The decision about an operator, with every line on the way to it.

    `shape` is `2x8`, or `2x8,8` for several tensors. `assumed` replaces entries of the device's
    fingerprint; with it the device need not be here.

    Raises:
        InvalidValue: an operator, a device, a shape or a dtype that cannot be.
        OperatorUnavailable: nothing is left; says why.
    """
    from jumar.evidence import shape_class

    classes = "*" if shape is None else shape_class(_shapes(shape))
    named = "*" if dtype is None else _dtype(dtype)
    decisions = in_force(device, catalogue, assumed=assumed)
    return decisions.decide(operator, shape_class=classes, dtype=named)


def in_force(
    device: str, catalogue: Catalogue, *, assumed: Mapping[str, str] | None = None
) -> Decisions:
    """The decisions of the policy in force, the quarantine, and a device by name.

    Raises:
        DeviceUnavailable: the device is not here, or has no such number, and nothing is assumed.
    """
    from jumar.devices.select import accelerators, parse, place
    from jumar.evidence import Store, quarantine

    kinds = accelerators()
    kind, index = parse(device, kinds)
    accelerator = kinds["cpu" if kind == "auto" else kind]
    fingerprint = dict(assumed or {})
    reason = accelerator.unavailable()
    if reason is None:
        if index is not None and not assumed:
            place(device)  # raises where there is none of that number
        there = {"device_class": accelerator.device_class(), **accelerator.fingerprint()}
        fingerprint = there | fingerprint
    elif not fingerprint:
        raise DeviceUnavailable(
            f"{device} cannot be used here: {reason}.",
            hint="Say what is to be assumed of it: --assume cann=8.5.0",
            param="device",
        )
    else:
        fingerprint = {"device_class": accelerator.kind} | fingerprint
    rules = quarantine(Store(), fingerprint)
    known = with_layers(catalogue, usable_only=True)
    return resolve(effective(accelerator.kind), known, fingerprint, rules)


def _dtype(name: str) -> str:
    import torch

    known = {
        text for text, value in vars(torch).items()
        if isinstance(value, torch.dtype) and text == str(value).removeprefix("torch.")
    }  # fmt: skip
    full = DTYPES.get(name, name)
    if full not in known:
        hint = did_you_mean(name, {*DTYPES, *known})
        raise InvalidValue(f"There is no dtype {name!r}.", hint=hint, param="dtype")
    return full


def _shapes(text: str) -> list[list[int]]:
    try:
        return [[int(size) for size in one.split("x") if size] for one in text.split(",")]
    except ValueError as error:
        raise InvalidValue(f"{text!r} is no shape such as 2x8 or 2x8,8.", param="shape") from error

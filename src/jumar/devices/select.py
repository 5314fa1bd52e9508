"""From what the caller wrote (`auto`, `ascend`, `cuda:1`, …) to a device that exists.

An explicit device is honoured or refused, never replaced. `auto` means the first CUDA device with
room, else the CPU; Ascend runs only where it is named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from jumar.contracts.errors import (
    DeviceUnavailable,
    InsufficientMemory,
    InvalidValue,
    did_you_mean,
)
from jumar.devices.ascend import Ascend
from jumar.devices.base import Accelerator, Device, Placement
from jumar.devices.cpu import CPU
from jumar.devices.cuda import CUDA, DRIVER_NODES
from jumar.devices.remedy import remedy
from jumar.devices.remote import Remote
from jumar.plugins import installed, load

BUILT_IN: tuple[Accelerator, ...] = (CPU(), CUDA(), Ascend(), Remote())
ALIASES = {"ascend": "npu", "cpu-stub": "cpu"}
_SPELLING = re.compile(r"([a-z][a-z0-9_-]*)(?::(\d+|free))?")


@cache
def accelerators() -> dict[str, Accelerator]:
    """All kinds by name: the built-in ones and those of other distributions.

    Looked for once in a process: every run asks.
    """
    kinds = {accelerator.kind: accelerator for accelerator in BUILT_IN}
    for plugin in installed("jumar.accelerators", foreign_only=True):
        accelerator = load(plugin)()
        kinds[accelerator.kind] = accelerator
    return kinds


def place(
    requested: str,
    *,
    need_bytes: int = 0,
    kinds: Mapping[str, Accelerator] | None = None,
) -> Placement:
    """The device for `requested`, with at least `need_bytes` free where that can be known.

    Raises:
        InvalidValue: the text names no device.
        DeviceUnavailable: the kind or the index is not here; says why, and what is.
        InsufficientMemory: the named device has too little free memory.
    """
    kinds = accelerators() if kinds is None else kinds
    kind, index = parse(requested, kinds)
    if kind == "auto":
        return _auto(need_bytes, kinds)
    accelerator = kinds[kind]
    if reason := accelerator.unavailable():
        raise DeviceUnavailable(
            f"{requested} cannot be used here: {reason}.",
            hint=" ".join(filter(None, [_what_there_is(kinds), remedy(reason)])),
            param="backend",
        )
    device, how = _pick(requested, accelerator.devices(), index)
    if device.free_bytes is not None and device.free_bytes < need_bytes:
        raise InsufficientMemory(
            f"{device.label} has {device.free_bytes / 2**30:.1f} GiB free;"
            f" this model needs about {need_bytes / 2**30:.1f} GiB.",
            hint="Free the device, choose another one, or another model.",
            param="backend",
        )
    return _placed(accelerator, device, requested, how)


def parse(requested: str, kinds: Mapping[str, Accelerator]) -> tuple[str, str | None]:
    """Kind and index (`None`, digits, or `free`) of a device string.

    Raises:
        InvalidValue: it is no device string, or the kind is unknown.
    """
    match = _SPELLING.fullmatch(requested)
    kind = ALIASES.get(match[1], match[1]) if match else None
    known = ["auto", *_here(kinds), *ALIASES]
    if match is None or (kind != "auto" and kind not in kinds):
        raise InvalidValue(
            f"{requested!r} names no device.", hint=did_you_mean(requested, known), param="backend"
        )
    if match[2] is not None and kind in ("auto", "cpu") and match[2] != "0":
        raise InvalidValue(f"{kind} has no index: write {kind!r}.", param="backend")
    assert kind is not None
    return kind, match[2]


def may_be_accelerator(requested: str) -> bool:
    """Whether a device string can mean anything but the CPU on this machine. Imports no library.

    Raises:
        InvalidValue: as `parse`.
    """
    kind, _ = parse(requested, accelerators())
    if kind == "auto":
        return any(Path(node).exists() for node in DRIVER_NODES)
    return kind not in ("cpu", Remote.kind)


def _pick(requested: str, devices: list[Device], index: str | None) -> tuple[Device, str]:
    if index == "free":
        best = max(devices, key=lambda device: (device.free_bytes or 0, -device.index))
        free = (best.free_bytes or 0) / 2**30
        return best, f"{best.shown} has the most free memory ({free:.1f} GiB)"
    wanted = int(index or 0)
    if wanted >= len(devices):
        raise DeviceUnavailable(
            f"There is no {requested}: {len(devices)} visible, indices 0 to {len(devices) - 1}.",
            hint="An index counts among the visible devices.",
            param="backend",
        )
    how = "named by the caller" if index is not None else "the first visible device"
    return devices[wanted], how


def _auto(need_bytes: int, kinds: Mapping[str, Accelerator]) -> Placement:
    reasons = []
    cuda = kinds.get("cuda")
    if cuda is not None:
        reason = cuda.unavailable()
        if reason is None:
            for device in cuda.devices():
                if device.free_bytes is None or device.free_bytes >= need_bytes:
                    how = "auto: the first CUDA device with room"
                    return _placed(cuda, device, "auto", how)
            reason = f"no device has {need_bytes / 2**30:.1f} GiB free"
        reasons.append(f"cuda: {reason}")
    cpu = kinds["cpu"]
    how = "auto: " + "; ".join([*reasons, "so the CPU"])
    return _placed(cpu, cpu.devices()[0], "auto", how)


def _placed(accelerator: Accelerator, device: Device, requested: str, how: str) -> Placement:
    return Placement(
        device=device,
        device_class=accelerator.device_class(),
        backend=accelerator.backend,
        requested=requested,
        reason=how,
        dtypes=accelerator.dtypes(device.index),
    )


def _what_there_is(kinds: Mapping[str, Accelerator]) -> str:
    here = [
        device.label
        for accelerator in _here(kinds).values()
        if accelerator.unavailable() is None
        for device in accelerator.devices()
    ]
    return "Here there is: " + ", ".join(here) + "."


def _here(kinds: Mapping[str, Accelerator]) -> dict[str, Accelerator]:
    """Those that a caller can name."""
    return {kind: kinds[kind] for kind in kinds if kind != Remote.kind}

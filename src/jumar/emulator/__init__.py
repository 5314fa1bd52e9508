"""An emulated NPU: a torch device `npu` over host memory, with faults that can be ordered.

Nobody imports this package. torch finds `activate` through the entry point group `torch.backends`,
as it finds torch_npu itself, so that child processes see the device unaided:

    $ JUMAR_EMULATE_NPU=2 python -c "import torch; print(torch.npu.get_device_name())"
    Ascend910B1 (emulated)

Tests order faults:

>>> from jumar import emulator
>>> with emulator.fault("mm", "raise", text="coreDim"):
...     a @ b                                            # raises what a real NPU raised

It shows that code does what it says on *a* device; it says nothing about Ascend hardware.
`docs/emulator.md` describes all of it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.emulator.faults import fault
    from jumar.emulator.observing import noise, record
    from jumar.emulator.settings import Settings

__all__ = ["Settings", "activate", "fault", "is_active", "noise", "record"]

_HOMES = {"Settings": "settings", "fault": "faults", "noise": "observing", "record": "observing"}
_active = False


def activate() -> None:
    """Make the emulated NPUs torch's `npu` devices, where `JUMAR_EMULATE_NPU` asks for it.

    Does nothing where the variable is not set, is empty or `0`, and nothing the second time.

    Raises:
        InvalidValue: the variable, or `JUMAR_EMULATE_FAULTS`, says something that is not valid.
        DependencyMissing: the core cannot be compiled here.
        DeviceUnavailable: a real torch_npu is installed beside it.
    """
    global _active
    if _active or os.environ.get("JUMAR_EMULATE_NPU", "").strip() in ("", "0"):
        return
    from jumar.emulator.settings import read_settings
    from jumar.emulator.start import start

    start(read_settings(os.environ))
    _active = True


def is_active() -> bool:
    """Whether the `npu` devices of this process are emulated."""
    return _active


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

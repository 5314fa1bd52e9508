"""The core without a compiler: the operators of `jumar_emulator`, and aten on npu, in Python.

An npu tensor is made from a CPU tensor by rewriting the device in its DLPack capsule: torch reads
"extension device" as its PrivateUse1, and both share the memory. What torch lets nobody register
from Python is missing (`LACKS`), and an operator costs about 80 us instead of 4.
"""

from __future__ import annotations

from typing import Any

LACKS = (
    "This machine has no C++ compiler, so the emulated NPUs run without their compiled core. They "
    "lack: noise, NPUGraph, generators and storages of a card, pinned memory, gradients on any "
    "card but the first, `npu` as another card than 0 in .to(), more than one card in "
    "torch.accelerator, cautions, and the exact peak of memory."
)


def load() -> list[Any]:
    """Define the operators that the rest of the emulator calls; the libraries have to be kept."""
    import torch
    from torch.utils import backend_registration

    from jumar.emulator.uncompiled import core, kernels

    libraries = [core.register(), *kernels.register()]
    accelerator = torch._C._acc
    accelerator.register_python_privateuseone_hook(backend_registration._DummyPrivateUse1Hook())
    accelerator.register_python_privateuseone_device_guard(backend_registration._DummyDeviceGuard())
    return libraries

"""What activation does, in order: the core, torch's names, torch_npu, operators, noise, faults."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import DeviceUnavailable

if TYPE_CHECKING:
    from jumar.emulator.settings import Settings

_kept: list[Any] = []
"""torch.library.Library objects: their kernels go when they go."""
_settings: Settings | None = None


class EmulatedWarning(UserWarning):
    """Said once in every process whose NPUs are emulated."""


def start(settings: Settings) -> None:
    """Make the cards of `settings` torch's `npu` devices. Only once per process.

    Raises:
        DeviceUnavailable: a real torch_npu is installed.
        DependencyMissing: the core cannot be built.
        InvalidValue, UnknownKey: `JUMAR_EMULATE_FAULTS` is not valid.
    """
    global _settings
    import torch

    from jumar.emulator import build, collectives, finder, kernels
    from jumar.emulator.faults import acting
    from jumar.emulator.faults.reading import read_faults
    from jumar.emulator.observing import set_noise

    _refuse_real()
    rules = read_faults(os.environ)
    if settings.core == "python" or (settings.core == "auto" and not build.find_compiler()):
        from jumar.emulator import uncompiled

        _kept.extend(uncompiled.load())
        warnings.warn(uncompiled.LACKS, EmulatedWarning, stacklevel=2)
    else:
        torch.ops.load_library(str(build.library()))
    _settings = settings
    core = torch.ops.jumar_emulator
    core.start([settings.memory] * len(settings.visible), settings.chip.bf16)
    core.route(_decomposing())
    core.native(_native_operators())
    torch.utils.rename_privateuse1_backend("npu")
    _kept.extend([acting.register(), *kernels.register()])
    finder.install()
    import torch_npu

    torch._register_device_module("npu", torch_npu.npu)
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)
    # torch asks the device's allocator of pinned memory, and crashes where there is none.
    torch.accelerator.empty_host_cache = lambda: None
    collectives.register()
    set_noise(settings.noise, settings.seed)
    for rule in rules:
        acting.add(rule)
    warnings.warn(_notice(settings, len(rules)), EmulatedWarning, stacklevel=2)


def current_settings() -> Settings:
    """The settings of this process. Raises RuntimeError where nothing is emulated."""
    if _settings is None:
        raise RuntimeError("no NPU is emulated in this process")
    return _settings


def _refuse_real() -> None:
    from importlib.metadata import PackageNotFoundError, version
    from importlib.util import find_spec

    if find_spec("torch_npu") is None:
        return
    try:
        found = f"torch_npu {version('torch_npu')}"
    except PackageNotFoundError:
        found = "a torch_npu"
    raise DeviceUnavailable(
        f"JUMAR_EMULATE_NPU is set, and {found} is installed: emulated NPUs never run beside it.",
        hint="Unset JUMAR_EMULATE_NPU, or use a virtual environment without torch_npu.",
    )


def _decomposing() -> list[str]:
    """Operators that torch would take apart, though the CPU and real NPUs have them whole."""
    import torch

    registered = torch._C._dispatch_get_registrations_for_dispatch_key
    whole = set(registered("CPU")) & set(registered("CompositeExplicitAutograd"))
    return sorted(whole | set(registered("CompositeExplicitAutogradNonFunctional")))


def _native_operators() -> list[str]:
    """What torch_npu 2.13.0 has kernels for; it runs the rest on the CPU, with a warning.

    Operators that torch takes apart are in it: they come here whole only while a fault is set.
    """
    import torch

    lines = Path(__file__).with_name("native_2.13.txt").read_text(encoding="utf-8").splitlines()
    names = [f"aten::{line}" for line in lines if not line.startswith("#")]
    for key in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
        composite = torch._C._dispatch_get_registrations_for_dispatch_key(key)
        names += [name.split(".", 1)[0] for name in composite]
    return names + [f"{name}_" for name in names]  # in place: torch calls the same kernel


def _notice(settings: Settings, faults: int) -> str:
    seen = len(settings.visible)
    cards = f"{seen} of {settings.count}" if seen != settings.count else str(seen)
    told = f", with {faults} fault{'s' * (faults != 1)}" if faults else ""
    return f"NPUs of this process are emulated: {cards} {settings.chip.name}{told}"

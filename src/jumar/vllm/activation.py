"""Whether vLLM runs on Jumar's platform in this process, on which device, and why.

An out-of-tree platform beats vLLM's own ones, so being installed is no reason to be active: there
has to be an NPU, or somebody has to say so in `JUMAR_VLLM_DEVICE`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jumar.contracts.errors import DeviceUnavailable, InvalidValue, JumarError, did_you_mean

LOGGER = logging.getLogger("vllm.jumar")
"""Below vLLM's own logger: its level, its format, the process's name."""
VARIABLE = "JUMAR_VLLM_DEVICE"
DEVICES = ("npu", "cpu")
GROUP = "vllm.platform_plugins"
PLUGIN = "jumar"
"""The name under which vLLM knows the platform (`VLLM_PLUGINS`)."""


@dataclass(frozen=True)
class Activation:
    """The device that vLLM gets from Jumar; None where Jumar leaves vLLM alone.

    `error` is set where somebody asked for what cannot be: vLLM would run another platform if
    nobody raised, so the platform does, as soon as it is made.
    """

    device: str | None
    reason: str
    error: JumarError | None = None


@dataclass(frozen=True)
class Machine:
    """What is asked of the machine, each question only where its answer matters."""

    without_npu: Callable[[], str | None]
    """Why there is no NPU; None where there is one."""
    npu_class: Callable[[], str]
    """`npu`, or `npu-emulated`."""
    has_nvidia: Callable[[], bool]
    other_platforms: Callable[[], Sequence[str]]
    """Out-of-tree platforms of others that want to be active here."""


def decide(environ: Mapping[str, str], machine: Machine) -> Activation:
    """Whether Jumar's platform is active: a function of the environment and the machine."""
    allowed = environ.get("VLLM_PLUGINS")
    if allowed is not None and PLUGIN not in allowed.split(","):
        return Activation(None, f"VLLM_PLUGINS={allowed} leaves {PLUGIN!r} out.")
    if asked := environ.get(VARIABLE):
        return _asked(asked, machine)
    if missing := machine.without_npu():
        return Activation(None, f"No NPU: {missing}. {VARIABLE}=cpu runs vLLM on the CPU.")
    if machine.has_nvidia():
        return Activation(
            None, f"There is an NVIDIA driver beside the NPU; {VARIABLE}=npu chooses the NPU."
        )
    if others := machine.other_platforms():
        return Activation(
            None,
            f"Another platform wants the NPU: {', '.join(others)}."
            f" VLLM_PLUGINS={PLUGIN} chooses Jumar's.",
        )
    return Activation("npu", f"There is an NPU ({machine.npu_class()}).")


def _asked(asked: str, machine: Machine) -> Activation:
    if asked not in DEVICES:
        error: JumarError = InvalidValue(
            f"{VARIABLE}={asked} is not valid.",
            hint=f"{did_you_mean(asked, DEVICES)} Which cards: ASCEND_RT_VISIBLE_DEVICES.",
            param=VARIABLE,
        )
        return Activation(None, f"{error.message} {error.hint}", error)
    if asked == "npu" and (missing := machine.without_npu()):
        error = DeviceUnavailable(
            f"{VARIABLE}=npu, and there is none: {missing}.", hint="Run: jumar doctor"
        )
        return Activation(None, error.message, error)
    if others := machine.other_platforms():
        error = InvalidValue(
            f"{VARIABLE}={asked}, and another platform is active too: {', '.join(others)}.",
            hint=f"VLLM_PLUGINS={PLUGIN} chooses Jumar's.",
            param=VARIABLE,
        )
        return Activation(None, f"{error.message} {error.hint}", error)
    return Activation(asked, f"{VARIABLE}={asked} says so.")


def this_machine() -> Machine:
    """The machine that this process runs on."""
    return Machine(_without_npu, _npu_class, _has_nvidia, _other_platforms)


@cache
def current() -> Activation:
    """The decision for this process. Never raises: what went wrong is the reason."""
    try:
        return decide(os.environ, this_machine())
    except Exception as cause:  # noqa: BLE001  (vLLM skips a plugin that raises, without a word)
        error = DeviceUnavailable(
            f"Whether there is an NPU cannot be told: {type(cause).__name__}: {cause}",
            hint="Run: jumar doctor",
        )
        error.__cause__ = cause
        return Activation(None, error.message, error if os.environ.get(VARIABLE) else None)


def _without_npu() -> str | None:
    from jumar.devices import accelerators

    return accelerators()["npu"].unavailable()


def _npu_class() -> str:
    from jumar.devices import accelerators

    return accelerators()["npu"].device_class()


def _has_nvidia() -> bool:
    from jumar.devices.cuda import DRIVER_NODES

    return any(Path(node).exists() for node in DRIVER_NODES)


def _other_platforms() -> list[str]:
    """As vLLM asks: one that raises is not active."""
    from importlib.metadata import entry_points

    allowed = os.environ.get("VLLM_PLUGINS")
    active = []
    for point in entry_points(group=GROUP):
        if point.name == PLUGIN or (allowed is not None and point.name not in allowed.split(",")):
            continue
        try:
            platform = point.load()()
        except Exception as error:  # noqa: BLE001  (vLLM passes over it as well, and says nothing)
            LOGGER.warning("Platform plugin %r fails: %r", point.name, error)
            continue
        if platform is not None:
            whose = f" of {point.dist.name}" if point.dist is not None else ""
            active.append(f"{point.name!r}{whose}")
    return active

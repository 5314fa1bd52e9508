"""The CPU: always there, and the device every reference answer can be checked on."""

from __future__ import annotations

import os
import platform
import resource
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from jumar.devices.base import Device
from jumar.devices.graphs import Graph, torch_compile
from jumar.devices.options import without_effect
from jumar.plugins import installed


class CPU:
    """All cores of this machine as one device."""

    kind = "cpu"
    backend = "cpu"

    def unavailable(self) -> str | None:
        """Never."""
        return None

    def device_class(self) -> str:
        """`cpu`."""
        return "cpu"

    def devices(self) -> list[Device]:
        """One device, with the machine's memory."""
        return [Device("cpu", 0, _cpu_name(), *_memory())]

    def dtypes(self, index: int) -> tuple[str, ...]:
        """fp32 is the fastest on most processors."""
        return ("fp32", "bf16", "fp16")

    def configure(self, config: Mapping[str, Any]) -> list[str]:
        """There is nothing to set."""
        return without_effect(config, "cpu")

    def synchronize(self, index: int) -> None:
        """Nothing is ever queued."""

    def reset_peak(self, index: int) -> None:
        """The kernel keeps one peak per process; `peak_mb` is that of the process."""

    def peak_mb(self, index: int) -> float | None:
        """Peak resident memory of this process since it began (Linux: ru_maxrss in KiB)."""
        return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6, 1)

    def empty_cache(self, index: int) -> None:
        """The allocator of the C library returns memory by itself."""

    def graphs(self) -> Sequence[Graph]:
        """`torch.compile`, which needs a C++ compiler."""
        return (torch_compile("torch.compile"),)

    def compiles_unasked(self) -> bool:
        """No: compiling takes longer than most of what people run on a CPU."""
        return False

    def fingerprint(self) -> dict[str, str]:
        """Architecture, processor and the libraries that compute on it."""
        return {"chip": _cpu_name(), "arch": platform.machine(), **library_versions()}


def library_versions(*names: str) -> dict[str, str]:
    """Versions of the installed libraries that numbers depend on, read without importing them:
    models' libraries, and the providers of operators with what compiles their kernels.

    `names` are distributions that count on one kind of device only.
    """
    return dict(_versions(names))


_LIBRARIES = (
    "torch", "transformers", "diffusers", "onnxruntime", "numpy", "flag_gems", "triton",
)  # fmt: skip


@cache
def _versions(names: tuple[str, ...]) -> dict[str, str]:
    """Looked up once in a process: every report has them."""
    found = {"python": platform.python_version()}
    for provider in installed("jumar.operator_providers", foreign_only=True):
        found[provider.distribution] = provider.version
    for name in (*_LIBRARIES, *names):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _memory() -> tuple[int | None, int | None]:
    """Total and available bytes; the container's limit where it is below the machine's."""
    try:
        page = os.sysconf("SC_PAGE_SIZE")
        total = page * os.sysconf("SC_PHYS_PAGES")
        free = _available() or page * os.sysconf("SC_AVPHYS_PAGES")
    except (ValueError, OSError):
        return None, None
    limit, used = (_cgroup_bytes(name) for name in ("memory.max", "memory.current"))
    if limit is not None and limit < total:
        return limit, min(free, limit - (used or 0))
    return total, free


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("MemAvailable:")), None)


def _cgroup_bytes(name: str) -> int | None:
    try:
        text = Path("/sys/fs/cgroup", name).read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None

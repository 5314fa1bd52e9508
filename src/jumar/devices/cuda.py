"""NVIDIA GPUs through torch.cuda."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jumar.contracts.errors import DeviceUnavailable
from jumar.devices.base import Device
from jumar.devices.cpu import library_versions
from jumar.devices.graphs import Graph, torch_compile
from jumar.devices.options import without_effect

DRIVER_NODES = ("/dev/nvidiactl", "/dev/dxg", "/dev/nvmap")
"""Control nodes of the driver: desktop and server, WSL 2, Jetson. Importing torch takes seconds;
a machine without any of them has no CUDA device to ask torch about."""


class CUDA:
    """The visible NVIDIA GPUs."""

    kind = "cuda"
    backend = "cuda"

    def unavailable(self) -> str | None:
        """What torch lacks, or that it sees no GPU."""
        if sys.platform == "linux" and not any(Path(node).exists() for node in DRIVER_NODES):
            return "this machine has no NVIDIA driver"
        if find_spec("torch") is None:
            return "torch is not installed"
        cuda = _cuda()
        if not cuda.is_available():
            built = _torch().version.cuda
            if built is None:
                return f"torch {_torch().__version__} is built without CUDA"
            return f"torch {_torch().__version__} (CUDA {built}) sees no usable NVIDIA GPU"
        return None

    def device_class(self) -> str:
        """`cuda`."""
        return "cuda"

    def devices(self) -> list[Device]:
        """One per GPU that CUDA_VISIBLE_DEVICES leaves visible."""
        if reason := self.unavailable():
            raise DeviceUnavailable(f"No CUDA device: {reason}.")
        found = []
        for index in range(_cuda().device_count()):
            free, total = _cuda().mem_get_info(index)
            name = _cuda().get_device_name(index)
            found.append(Device("cuda", index, name, total, free, _on_host(index)))
        return found

    def dtypes(self, index: int) -> tuple[str, ...]:
        """bf16 from Ampere on (compute capability 8.0); before, it is only emulated."""
        major, _ = _cuda().get_device_capability(index)
        return ("bf16", "fp16", "fp32") if major >= 8 else ("fp16", "fp32")

    def configure(self, config: Mapping[str, Any]) -> list[str]:
        """There is nothing to set."""
        return without_effect(config, "cuda")

    def synchronize(self, index: int) -> None:
        """Wait for all streams of the device."""
        _cuda().synchronize(index)

    def reset_peak(self, index: int) -> None:
        """Forget the allocator's peak."""
        _cuda().reset_peak_memory_stats(index)

    def peak_mb(self, index: int) -> float | None:
        """Peak of torch's allocator on this device; None where nothing ran in this process."""
        return round(float(_cuda().max_memory_allocated(index)) / 1e6, 1) or None

    def empty_cache(self, index: int) -> None:
        """Return cached blocks to the driver."""
        with _cuda().device(index):
            _cuda().empty_cache()

    def graphs(self) -> Sequence[Graph]:
        """`torch.compile` with its own backend."""
        return (torch_compile("torch.compile"),)

    def compiles_unasked(self) -> bool:
        """Yes."""
        return True

    def fingerprint(self) -> dict[str, str]:
        """GPU, compute capability, CUDA and library versions."""
        major, minor = _cuda().get_device_capability(0)
        return {
            "chip": _cuda().get_device_name(0),
            "arch": f"sm_{major}{minor}",
            "cuda": str(_torch().version.cuda),
            **library_versions(),
        }


def _on_host(index: int) -> str | None:
    """The number or UUID that CUDA_VISIBLE_DEVICES has in that place; None where it is not set."""
    listed = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    name = listed[index].strip() if index < len(listed) else ""
    return f"GPU {name}" if name.isdigit() else name or None


def _torch() -> Any:
    import torch

    return torch


def _cuda() -> Any:
    return _torch().cuda

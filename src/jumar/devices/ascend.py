"""Ascend NPUs through torch_npu."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from jumar.contracts.errors import DeviceUnavailable
from jumar.devices.base import Device
from jumar.devices.cpu import library_versions
from jumar.devices.graphs import Graph, captured, inside, torch_compile


class Ascend:
    """The NPUs that ASCEND_RT_VISIBLE_DEVICES leaves visible."""

    kind = "npu"
    backend = "ascend"

    def unavailable(self) -> str | None:
        """What is missing, with the import error's own words where torch_npu does not load."""
        if find_spec("torch") is None:
            return "torch is not installed"
        # The emulated torch_npu is there only once torch is imported, which takes seconds.
        if find_spec("torch_npu") is None and not os.environ.get("JUMAR_EMULATE_NPU"):
            return "torch_npu is not installed"
        try:
            npu = _npu()
        except (ImportError, OSError, RuntimeError) as error:
            return f"torch_npu does not load: {type(error).__name__}: {error}"
        if not npu.is_available() or npu.device_count() == 0:
            return "torch_npu loads and sees no NPU"
        return None

    def device_class(self) -> str:
        """`npu`; the emulated NPU calls itself `npu-emulated`."""
        return str(getattr(_npu(), "device_class", "npu"))

    def devices(self) -> list[Device]:
        """One per visible NPU."""
        if reason := self.unavailable():
            raise DeviceUnavailable(f"No Ascend NPU: {reason}.", hint="Run: jumar doctor")
        found = []
        for index in range(_npu().device_count()):
            free, total = _npu().mem_get_info(index)
            found.append(Device("npu", index, _npu().get_device_name(index), total, free))
        return found

    def synchronize(self, index: int) -> None:
        """Wait for all streams of the device."""
        _npu().synchronize(index)

    def reset_peak(self, index: int) -> None:
        """Forget the allocator's peak."""
        _npu().reset_peak_memory_stats(index)

    def peak_mb(self, index: int) -> float | None:
        """Peak of torch_npu's allocator on this device."""
        return round(float(_npu().max_memory_allocated(index)) / 1e6, 1)

    def empty_cache(self, index: int) -> None:
        """Return cached blocks to the driver."""
        with _npu().device(index):
            _npu().empty_cache()

    def graphs(self) -> Sequence[Graph]:
        """Whichever of the three this torch_npu has: its graph mode, torchair, NPUGraph."""
        import torch_npu

        npu, found = _npu(), []
        if hasattr(torch_npu.npu, "graph_mode"):
            found.append(inside("torch_npu.npu.graph_mode", torch_npu.npu.graph_mode))
        if find_spec("torch_npu.dynamo.torchair") is not None:
            from torch_npu.dynamo import torchair

            found.append(torch_compile("torchair", backend=torchair.get_npu_backend()))
        if hasattr(npu, "NPUGraph"):
            found.append(captured("NPUGraph", npu, "NPUGraph"))
        return found

    def compiles_unasked(self) -> bool:
        """Yes, as the deployment page says: a graph is tried first."""
        return True

    def fingerprint(self) -> dict[str, str]:
        """Chip and library versions."""
        import torch_npu

        return {
            "chip": str(_npu().get_device_name(0)),
            "torch_npu": str(torch_npu.__version__),
            **library_versions(),
        }


def _npu() -> Any:
    import torch
    import torch_npu  # noqa: F401  (registers torch.npu)

    return torch.npu

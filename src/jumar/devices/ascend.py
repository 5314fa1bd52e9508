"""Ascend NPUs through torch_npu."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

from jumar.contracts.errors import DeviceUnavailable
from jumar.devices.base import Device
from jumar.devices.cpu import library_versions
from jumar.devices.graphs import Graph, captured, inside, torch_compile
from jumar.host.visibility import read_visibility

WITHOUT_BF16 = ("910", "310p", "310b")
"""Product lines that do not compute in bfloat16 (`jumar.host.tables`, soc_names.tsv)."""

COMPILERS = ("triton-ascend", "flagtree")
"""Distributions that compile kernels for NPUs."""


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
        if (failure := _load_failure()) is not None:
            return f"torch_npu does not load: {failure}"
        if not _npu().is_available() or _npu().device_count() == 0:
            return "torch_npu loads and sees no NPU"
        return None

    def device_class(self) -> str:
        """`npu`; the emulated NPU calls itself `npu-emulated`."""
        return str(getattr(_npu(), "device_class", "npu"))

    def devices(self) -> list[Device]:
        """One per visible NPU."""
        if reason := self.unavailable():
            raise DeviceUnavailable(f"No Ascend NPU: {reason}.", hint="Run: jumar doctor")
        count = _npu().device_count()
        ids = read_visibility(os.environ).ids
        # CANN drops ids that do not exist: where some were, nobody can tell which.
        cards = [f"card {one}" for one in ids] if ids and len(ids) == count else [None] * count
        found = []
        for index in range(count):
            free, total = _npu().mem_get_info(index)
            name = _npu().get_device_name(index)
            found.append(Device("npu", index, name, total, free, cards[index]))
        return found

    def dtypes(self, index: int) -> tuple[str, ...]:
        """bf16 first, as OmniRT's deployment page says, where the chip has it."""
        return ("bf16", "fp16", "fp32") if _has_bf16(index) else ("fp16", "fp32")

    def configure(self, config: Mapping[str, Any]) -> list[str]:
        """Whether operators are compiled for their shapes (`jit_compile`), and whether tensors may
        lie in formats of the NPU's own (`internal_format`). Both are off where nobody asks: the
        first costs minutes on some chips, the second has given wrong answers with views.
        """
        jit, internal = bool(config.get("jit_compile")), bool(config.get("internal_format"))
        told = []
        if hasattr(_npu(), "set_compile_mode"):
            _npu().set_compile_mode(jit_compile=jit)
        elif config.get("jit_compile") is not None:
            told.append("jit_compile is not set: this torch_npu has no set_compile_mode.")
        if hasattr(_npu(), "config"):
            _npu().config.allow_internal_format = internal
        elif config.get("internal_format") is not None:
            told.append("internal_format is not set: this torch_npu has no config.")
        return told

    def synchronize(self, index: int) -> None:
        """Wait for all streams of the device."""
        _npu().synchronize(index)

    def reset_peak(self, index: int) -> None:
        """Forget the allocator's peak."""
        _npu().reset_peak_memory_stats(index)

    def peak_mb(self, index: int) -> float | None:
        """Peak of torch_npu's allocator on this device; None where nothing ran in this process."""
        return round(float(_npu().max_memory_allocated(index)) / 1e6, 1) or None

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
        """Chip, driver, CANN, torch_npu, kernel compilers and library versions."""
        import torch_npu

        return {
            "chip": str(_npu().get_device_name(0)),
            **_below_torch(),
            "torch_npu": str(torch_npu.__version__),
            **library_versions(*COMPILERS),
        }


@cache
def _load_failure() -> str | None:
    """Why torch_npu does not load, in the words of the first cause.

    Remembered: a torch whose autoload of torch_npu failed cannot be imported a second time.
    """
    try:
        _npu()
    except Exception as error:  # noqa: BLE001  (whatever native libraries raise; told, not lost)
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        return f"{type(cause).__name__}: {' '.join(str(cause).split()).rstrip('.')}"
    return None


def _has_bf16(index: int) -> bool:
    asks = getattr(_npu(), "is_bf16_supported", None)
    if asks is not None:
        return bool(asks())
    from jumar.host.soc import find_soc

    soc = find_soc(str(_npu().get_device_name(index)))
    return soc is None or soc.variant not in WITHOUT_BF16


@cache
def _below_torch() -> dict[str, str]:
    """Versions of driver and CANN, from their files."""
    from jumar.host.read import read_software
    from jumar.host.source import open_source

    facts = read_software(open_source(None))
    found = {
        "driver": facts.driver and facts.driver.version,
        "cann": facts.cann and facts.cann.version,
    }
    return {name: version for name, version in found.items() if version}


def _npu() -> Any:
    _keep_compiled()
    import torch
    import torch_npu  # noqa: F401  (registers torch.npu)

    return torch.npu


@cache
def _keep_compiled() -> None:
    """Operators that CANN compiles are kept for other processes (CANN's own variables, read when
    it starts); whoever set them is heard.
    """
    if "ACL_OP_COMPILER_CACHE_DIR" in os.environ or os.environ.get("JUMAR_EMULATE_NPU"):
        return
    from platformdirs import user_cache_path

    folder = user_cache_path("jumar") / "ascend-operators"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["ACL_OP_COMPILER_CACHE_DIR"] = str(folder)
    os.environ.setdefault("ACL_OP_COMPILER_CACHE_MODE", "enable")

"""Devices: how many, which one is current, what they are."""

from types import SimpleNamespace, TracebackType
from typing import Any

import torch

from jumar.emulator.start import current_settings

_core = torch.ops.jumar_emulator

__all__ = [
    "current_device",
    "device",
    "device_count",
    "device_of",
    "get_amp_supported_dtype",
    "get_autocast_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_soc_version",
    "init",
    "is_autocast_enabled",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "is_jit_compile_false",
    "set_autocast_dtype",
    "set_autocast_enabled",
    "set_compile_mode",
    "set_device",
    "set_option",
    "synchronize",
    "utilization",
]
_options: dict[str, Any] = {"jit_compile": False}


def index_of(device: Any = None) -> int:
    """The index of an int, "npu:1" or torch.device; the current device where there is none."""
    if device is None:
        return current_device()
    if isinstance(device, int):
        return device if device >= 0 else current_device()
    one = torch.device(device)
    if one.type != "npu":
        raise ValueError(f"Expected a npu device, but got: {one}")
    return current_device() if one.index is None else one.index


def in_bad_fork() -> bool:
    """Whether this process was forked from one that used a device."""
    return bool(_core.in_bad_fork())


def init() -> None:
    """Open the devices. Raises RuntimeError in a forked child of a process that did."""
    _core.touch()


def is_initialized() -> bool:
    """Whether this process used a device."""
    return bool(_core.is_touched()) and not in_bad_fork()


def is_available() -> bool:
    """Whether there is a visible card."""
    return device_count() > 0


def device_count() -> int:
    """How many cards ASCEND_RT_VISIBLE_DEVICES leaves."""
    return len(current_settings().visible)


def current_device() -> int:
    """The index that `npu` stands for in this thread."""
    return int(_core.current_device())


def set_device(device: Any) -> None:
    """Make `device` current in this thread."""
    _core.set_device(index_of(device))


def synchronize(device: Any = None) -> None:
    """Wait for the device; raises what operators failed with asynchronously."""
    _core.synchronize(index_of(device))


class device:  # noqa: N801
    """Context: `device` is current inside; None and negative numbers change nothing."""

    def __init__(self, device: Any) -> None:
        nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if nothing else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = current_device()
        if self.idx >= 0:
            set_device(self.idx)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):  # noqa: N801
    """Context: the device of a tensor or storage is current inside."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device.index if obj.device.type == "npu" else -1)


def get_device_name(device_name: Any = None) -> str:
    """The chip, and that it is emulated."""
    _checked(device_name)
    return current_settings().device_name


def get_device_properties(device_name: Any = None) -> SimpleNamespace:
    """Name, memory in bytes, cores."""
    index = _checked(device_name)
    cube, vector = current_settings().chip.cores
    return SimpleNamespace(
        name=get_device_name(index),
        total_memory=current_settings().memory,
        cube_core_num=cube,
        vector_core_num=vector,
        L2_cache_size=192 << 20,
    )


def get_device_capability(device: Any = None) -> None:
    """None: what torch_npu answers."""
    _checked(device)


def get_soc_version() -> int:
    """The chip's number in torch_npu's table."""
    return current_settings().chip.soc


def is_bf16_supported(including_emulation: bool = False) -> bool:
    """Whether the chip computes in bfloat16."""
    return current_settings().chip.bf16


def get_amp_supported_dtype() -> list[torch.dtype]:
    """What autocast may lower to."""
    lower = [torch.float16, torch.bfloat16] if is_bf16_supported() else [torch.float16]
    return [*lower, torch.float32]


def is_autocast_enabled() -> bool:
    """Whether autocast is on for npu in this thread."""
    return bool(torch.is_autocast_enabled("npu"))


def set_autocast_enabled(enable: bool) -> None:
    """Turn autocast for npu in this thread."""
    torch.set_autocast_enabled("npu", enable)


def get_autocast_dtype() -> torch.dtype:
    """What autocast lowers to on npu."""
    return torch.get_autocast_dtype("npu")


def set_autocast_dtype(dtype: torch.dtype) -> None:
    """Choose what autocast lowers to on npu."""
    torch.set_autocast_dtype("npu", dtype)


def set_compile_mode(jit_compile: bool = False) -> None:
    """Remembered; nothing is compiled per operator here."""
    _options["jit_compile"] = jit_compile


def is_jit_compile_false() -> bool:
    """What `set_compile_mode` was told last."""
    return not _options["jit_compile"]


def set_option(option: Any) -> None:
    """Remembered. Raises TypeError for anything but a dict."""
    if not isinstance(option, dict):
        raise TypeError("npu option must be a dict.")
    _options.update(option)


def utilization(device: Any = None) -> int:
    """0: nothing runs between two calls."""
    _checked(device)
    return 0


def _checked(device: Any) -> int:
    index = index_of(device)
    if not 0 <= index < device_count():
        raise AssertionError("Invalid device id")
    return index

"""Memory: what the allocator of each emulated card counts, in bytes."""

from typing import Any

import torch

from .devices import device_count, index_of

_core = torch.ops.jumar_emulator
_FIELDS = (
    "total",
    "allocated",
    "reserved",
    "peak",
    "peak_reserved",
    "allocations",
    "frees",
    "ooms",
)

__all__ = [
    "empty_cache",
    "get_allocator_backend",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_stats",
    "memory_summary",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_memory_stats",
]


def _stats(device: Any) -> dict[str, int]:
    return dict(zip(_FIELDS, _core.stats(index_of(device)), strict=True))


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take."""
    return _stats(device)["allocated"]


def max_memory_allocated(device: Any = None) -> int:
    """The most that tensors took since the last reset."""
    return _stats(device)["peak"]


def memory_reserved(device: Any = None) -> int:
    """Bytes that the allocator holds, cached blocks included."""
    return _stats(device)["reserved"]


def max_memory_reserved(device: Any = None) -> int:
    """The most that the allocator held since the last reset."""
    return _stats(device)["peak_reserved"]


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Free and total bytes of the card."""
    _core.touch()
    stats = _stats(device)
    return stats["total"] - stats["reserved"], stats["total"]


def empty_cache() -> None:
    """Give cached blocks of all cards back."""
    _core.empty_cache()


def reset_peak_memory_stats(device: Any = None) -> None:
    """Begin to look for a new peak."""
    _core.reset_peak(index_of(device))


def reset_max_memory_allocated(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def reset_max_memory_cached(device: Any = None) -> None:
    """The same as `reset_peak_memory_stats`."""
    reset_peak_memory_stats(device)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Some of torch's statistics; empty before there is a card."""
    if not device_count():
        return {}
    stats = _stats(device)
    return {
        "allocated_bytes.all.current": stats["allocated"],
        "allocated_bytes.all.peak": stats["peak"],
        "reserved_bytes.all.current": stats["reserved"],
        "reserved_bytes.all.peak": stats["peak_reserved"],
        "allocation.all.allocated": stats["allocations"],
        "allocation.all.freed": stats["frees"],
        "num_ooms": stats["ooms"],
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """`memory_stats` as text."""
    title = f"Emulated NPU {index_of(device)}"
    return "\n".join([title, *(f"{key:36} {value}" for key, value in memory_stats(device).items())])


def get_allocator_backend() -> str:
    """`native`."""
    return "native"

"""How many bytes the KV cache gets: those that were named, else those that measuring leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from jumar.contracts.errors import InsufficientMemory
from jumar.reporting.units import size
from jumar.vllm.activation import LOGGER

_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Gauge(Protocol):
    """What a process needs of a device's memory, in bytes."""

    def free_total(self) -> tuple[int, int]:
        """Free and total bytes of the device."""
        ...

    def begin(self) -> None:
        """Begin a new measurement."""
        ...

    def peak(self) -> int:
        """The most that this process needed since `begin`."""
        ...


@dataclass(frozen=True)
class Memory:
    """The account of one worker, opened before it loads a model.

    `requested`: what it may take in all; `named`: what was named for the KV cache.
    """

    requested: int
    named: int | None

    @classmethod
    def of(cls, cache: Any, gauge: Gauge, sharing: int) -> Memory:
        """Open the account; `sharing` workers share the device.

        Raises:
            InsufficientMemory: there is less free memory than was asked for.
        """
        free, total = gauge.free_total()
        if cache.kv_cache_memory_bytes is not None:
            named = int(cache.kv_cache_memory_bytes)
            _refuse_beyond(free, named, sharing, "--kv-cache-memory-bytes")
            return cls(named, named)
        requested = int(total * cache.gpu_memory_utilization) // sharing
        _refuse_beyond(free, requested, sharing, "--gpu-memory-utilization")
        return cls(requested, None)

    def left(self, peak: int) -> int:
        """What a worker that needs `peak` bytes without a KV cache leaves for one.

        Raises:
            InsufficientMemory: nothing.
        """
        if peak >= self.requested:
            raise InsufficientMemory(
                f"Weights and activations take {size(peak)}; this worker may take"
                f" {size(self.requested)}.",
                hint="Raise --gpu-memory-utilization, or lower --max-num-batched-tokens.",
            )
        return self.requested - peak

    def told(self, left: int) -> str:
        """One line for the log."""
        if self.named is not None:
            return f"{size(left)}, as named; nothing was measured"
        peak, of = size(self.requested - left), size(self.requested)
        return f"{size(left)}; without it this worker's measured peak is {peak} of {of}"


def _refuse_beyond(free: int, asked: int, sharing: int, flag: str) -> None:
    if asked * sharing > free:
        raise InsufficientMemory(
            f"{flag} asks for {size(asked * sharing)}; {size(free)} are free.",
            hint=f"Lower {flag}, or free the device.",
        )


class HostGauge:
    """The CPU: resident memory of this process, whose peak the kernel keeps (proc(5): VmHWM)."""

    def free_total(self) -> tuple[int, int]:
        """Of the machine."""
        from jumar.devices import accelerators

        one = accelerators()["cpu"].devices()[0]
        return one.free_bytes or 0, one.total_bytes or 0

    def begin(self) -> None:
        """Writing 5 to clear_refs makes VmHWM what is resident now; where that is not allowed the
        peak is that of the process since it began, which is never too little.
        """
        try:
            _CLEAR_REFS.write_text("5", encoding="ascii")
        except OSError as error:
            LOGGER.info("The peak of memory counts from the start of the process: %s", error)

    def peak(self) -> int:
        """VmHWM."""
        return _status("VmHWM")


class CardGauge:
    """An NPU: what torch's allocator gave out, and what was taken beside it since the worker began
    (the process groups' buffers, the runtime's context)."""

    def __init__(self, index: int) -> None:
        import torch

        self._npu, self._index = torch.npu, index
        self._before = self._beside()

    def free_total(self) -> tuple[int, int]:
        """Of the card."""
        free, total = self._npu.mem_get_info(self._index)
        return int(free), int(total)

    def begin(self) -> None:
        """Forget the allocator's peak."""
        self._npu.empty_cache()
        self._npu.reset_peak_memory_stats(self._index)

    def peak(self) -> int:
        """The allocator's peak, and what is beside it now."""
        self._npu.synchronize(self._index)
        self._npu.empty_cache()
        beside = max(0, self._beside() - self._before)
        return int(self._npu.max_memory_allocated(self._index)) + beside

    def _beside(self) -> int:
        free, total = self.free_total()
        return total - free - int(self._npu.memory_reserved(self._index))


class EmulatedGauge(CardGauge):
    """An emulated NPU, whose memory is the host's: what the host has not, no card has."""

    def free_total(self) -> tuple[int, int]:
        """Of the card, or this card's part of the host where that is less."""
        cards = self._npu.device_count()
        host = (part // cards for part in HostGauge().free_total())
        free, total = map(min, super().free_total(), host)
        return free, total


def gauge(device: Any) -> Gauge:
    """The gauge for a torch device."""
    from jumar.devices import accelerators

    kind = accelerators()[device.type].device_class()
    return GAUGES[kind](device)


GAUGES: dict[str, Callable[[Any], Gauge]] = {
    "cpu": lambda device: HostGauge(),
    "npu": lambda device: CardGauge(device.index),
    "npu-emulated": lambda device: EmulatedGauge(device.index),
}


def resident() -> int:
    """Bytes of this process that are in memory."""
    return _status("VmRSS")


def _status(name: str) -> int:
    for line in _STATUS.read_text(encoding="ascii").splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024  # kB in proc(5), and KiB is meant
    raise KeyError(name)

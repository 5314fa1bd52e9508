"""Streams and events. Operators run at once, so nothing here waits; errors are told here."""

import time
from types import TracebackType
from typing import Any

import torch

from .devices import current_device, index_of

_core = torch.ops.jumar_emulator
_current: dict[int, Any] = {}

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "current_stream",
    "default_stream",
    "set_stream",
    "stream",
]


class Event(torch.Event):  # type: ignore[misc]
    """A mark in a stream."""

    def __new__(
        cls, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> Any:
        return super().__new__(
            cls,
            torch.device("npu", current_device()),
            enable_timing=enable_timing,
            blocking=blocking,
            interprocess=interprocess,
        )

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        self._at: float | None = None

    def record(self, stream: Any = None) -> None:
        self._at = time.perf_counter()

    def wait(self, stream: Any = None) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        _core.synchronize(self.device.index)

    def elapsed_time(self, end_event: "Event") -> float:
        """Milliseconds from this event to `end_event`."""
        if self._at is None or end_event._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        return (end_event._at - self._at) * 1e3


class Stream(torch.Stream):  # type: ignore[misc]
    """A queue of operators."""

    def __new__(cls, device: Any = None, priority: int = 0, **kwargs: Any) -> Any:
        if "stream_id" in kwargs:
            return super().__new__(cls, **kwargs)
        where = torch.device("npu", index_of(device))
        return super().__new__(cls, device=where, priority=priority, **kwargs)

    @property
    def npu_stream(self) -> int:
        return int(self.stream_id)

    def record_event(self, event: Any = None) -> Any:
        made = Event() if event is None else event
        made.record(self)
        return made

    def wait_event(self, event: Any) -> None:
        """Nothing to wait for."""

    def wait_stream(self, stream: Any) -> None:
        """Nothing to wait for."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        _core.synchronize(self.device_index)

    def __eq__(self, other: Any) -> bool:
        same = isinstance(other, torch.Stream)
        return same and (other.device_index, other.stream_id) == (self.device_index, self.stream_id)

    __hash__ = torch.Stream.__hash__


def default_stream(device: Any = None) -> Any:
    """The stream of a card that operators run in when none is chosen."""
    kind = torch._C._autograd.DeviceType.PrivateUse1.value
    return Stream(stream_id=0, device_index=index_of(device), device_type=kind)


def current_stream(device: Any = None) -> Any:
    """The stream that is chosen for a card."""
    index = index_of(device)
    return _current.get(index) or default_stream(index)


def set_stream(stream: Any) -> None:
    """Choose a stream; None changes nothing."""
    if stream is not None:
        _current[stream.device_index] = stream


class StreamContext:
    """Context: a stream is chosen inside."""

    def __init__(self, stream_ctx: Any) -> None:
        self.stream = stream_ctx
        self.before: Any = None

    def __enter__(self) -> "StreamContext":
        if self.stream is not None:
            self.before = current_stream(self.stream.device_index)
            set_stream(self.stream)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        set_stream(self.before)


def stream(stream: Any) -> StreamContext:
    """Context: `stream` is chosen inside."""
    return StreamContext(stream)

"""Inside the child: make the worker, answer calls one by one, report progress, notice a cancel."""

from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from jumar.contracts.errors import Cancelled, RunFailed
from jumar.isolate.frames import Channel, Frame, Kind, Lost, dumped
from jumar.isolate.outcomes import Failure

Answer = Callable[[Any], Any]


class _Current:
    """The one call that this process is answering; owned by `serve`, None in any other process."""

    worker: Worker | None = None


def progress(done: int, total: int | None = None) -> None:
    """Say that the work goes on: `done` of `total` steps. Nothing happens outside a watched child.

    This, not a thread beside the work, is what the watchdog waits for: call it from the loop that
    does the work, so that a hang is seen as one.

    Raises:
        Cancelled: The caller has cancelled this call.
    """
    if _Current.worker is not None:
        _Current.worker.say(Kind.PROGRESS, (done, total))


def tell(value: Any, *, at_once: bool = True) -> None:
    """Hand something small that can be pickled to the caller's `on_told`, while the call runs.

    A sign of progress as well; nothing happens outside a watched child. What need not be known
    `at_once` goes with the next that is told, or with the answer: for what ends one thing just
    before the next begins.

    Raises:
        Cancelled: The caller has cancelled this call.
    """
    if _Current.worker is not None:
        _Current.worker.say(Kind.TOLD, value, at_once=at_once)


def serve(channel: Channel) -> None:
    """Answer until the parent closes its end. The first call is `(target, arguments)`."""
    worker = _Current.worker = Worker(channel)
    try:
        worker.run()
    except Lost:
        return  # the parent has closed its end: nobody waits for anything any more
    finally:
        _Current.worker = None


class Worker:
    """The child's end of the channel and the number of the call that it answers."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._number: int | None = None
        self._lock = threading.Lock()  # progress may come from any thread of the worker

    def run(self) -> None:
        """The life of a worker: make it, then answer; without a worker there is nothing to do."""
        answer = self._answered(self._next_call(), _made)
        while answer is not None:
            self._answered(self._next_call(), answer)

    def say(self, kind: Kind, value: Any, *, at_once: bool = True) -> None:
        """Send one frame; raise if a cancel of this call is there."""
        with self._lock:
            if (number := self._number) is None:
                return  # a thread that the worker left behind, between two calls
            if not at_once:
                self._channel.hold(kind, value, number=number)
                return
            self._channel.send(kind, value, number=number)
            # While a call runs, nothing but cancels can come in.
            while self._channel.ready(until=0):
                if self._channel.receive().number == number:
                    raise Cancelled("The caller stopped the run.")

    def _next_call(self) -> Frame:
        while (frame := self._channel.receive()).kind is not Kind.CALL:
            continue  # a cancel that came after its call was answered
        return frame

    def _answered(self, frame: Frame, answer: Answer) -> Any:
        """Answer one call; returns what `_made` made, or None where it raised."""
        self._number, value = frame.number, None
        try:
            value = answer(frame.value())
            kind, parts = Kind.RETURNED, dumped(None) if answer is _made else _sendable(value)
        except Exception as error:  # noqa: BLE001  (the caller gets it whole, as data)
            kind, parts = Kind.RAISED, dumped(Failure.of(error))
        with self._lock:
            self._number = None
            self._channel.send_parts(kind, parts, number=frame.number)
        return value


def _made(order: tuple[Callable[..., Any], tuple[Any, ...]]) -> Answer:
    """The answer to the first call: the function that answers all others."""
    target, arguments = order
    made = target(*arguments)
    if not callable(made):
        raise RunFailed(
            f"The worker's target returned {type(made).__name__}, not a function that answers."
        )
    answer: Answer = made
    return answer


def _sendable(value: Any) -> list[Any]:
    try:
        return dumped(value)
    except Exception as error:
        raise RunFailed(
            f"The result ({type(value).__name__}) cannot be sent: {error}",
            hint="Return plain data: numbers, text, bytes, lists, dicts, arrays.",
        ) from error


def main(channel: int, stacks: int) -> None:
    """A child that was started anew, not forked: import what the zygote would have, then answer."""
    from importlib import import_module

    from jumar.isolate.stacks import write_on_request

    write_on_request(stacks)
    ours = Channel(socket.socket(fileno=channel))
    sys.path[:], preload = ours.receive().value()
    for module in preload:
        import_module(module)
    serve(ours)

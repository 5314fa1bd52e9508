"""A worker in a watched process: calls go in, outcomes come out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from jumar.contracts.errors import InvalidInput, RunFailed
from jumar.isolate.frames import Buffer, Channel, Frame, Kind, Lost, dumped
from jumar.isolate.messages import End, Report
from jumar.isolate.outcomes import Died, Failure, Outcome, Raised, Returned
from jumar.isolate.watched import Parts, Watch, Watched, died

OnProgress = Callable[[int, "int | None"], object]
OnTold = Callable[[Any], object]
_Ears = Mapping[Kind, OnTold]

TICK_S = 0.05
"""Between two looks at a caller's wish to stop, in seconds."""


class Child(Watched):
    """Made by `Zygote.spawn`. Calls from several threads take turns.

    After `Died` or `Hung`, or when its target raised, the child is over: every further call gives
    that outcome again, at once. A new one is a `spawn` away.
    """

    def __init__(self, parts: Parts, channel: Channel, order: list[Buffer]) -> None:
        super().__init__(parts)
        self._channel = channel
        self._order: list[Buffer] | None = order
        self._number = 0
        self._turn = threading.Lock()
        self._sending = threading.Lock()
        self._over: Outcome | None = None
        self._closing = False

    @property
    def alive(self) -> bool:
        """Whether it has not ended. The kernel knows: its channel closes with the process."""
        return super().alive and not self._channel.ended()

    def ready(
        self,
        *,
        deadline: float | None = None,
        heartbeat: float | None = None,
        on_progress: OnProgress | None = None,
    ) -> Outcome:
        """Wait until the target has made the worker: `Returned(None)`. Limits as for `call`."""
        with self._turn:
            return self._ready(Watch(deadline, heartbeat), _ears(on_progress, None))

    def call(
        self,
        payload: Any,
        *,
        deadline: float | None = None,
        heartbeat: float | None = None,
        on_progress: OnProgress | None = None,
        on_told: OnTold | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        stop: threading.Event | None = None,
        patience: float = 0.0,
    ) -> Outcome:
        """Let the worker answer `payload`, and wait for how that ends.

        Args:
            payload: Anything that can be pickled; large arrays go beside the pickle.
            deadline: Seconds for the answer, from when this call's turn comes.
            heartbeat: Longest time in seconds without a `progress` or `tell` of the worker.
            on_progress: Called in this thread with (done, total). What it raises ends the child.
            on_told: The same, with whatever the worker gave to `tell`.
            meanwhile: Called in this thread once the worker has begun: what this side can do until
                there is an answer. What it raises ends the child.
            stop: Once it is set, the worker is asked to stop, as by `cancel`; one that has not
                after `patience` seconds is ended.

        A worker that is not made yet is made first, under the same limits.

        Raises:
            DeadlineExceeded: `deadline` was not positive; the child was not touched.
            InvalidInput: The payload cannot be pickled; the child was not touched.
        """
        parts = _sendable(payload)
        ears = _ears(on_progress, on_told)
        with self._turn:
            if self._order is not None:
                self._ready(Watch(deadline, heartbeat), ears)
            if self._over is not None:
                return self._over
            halt = None if stop is None else _Halt(stop, patience)
            return self._exchange(parts, Watch(deadline, heartbeat), ears, halt, meanwhile)

    def cancel(self) -> None:
        """Ask, from another thread, that the running call stop at its next `progress` or `tell`.

        The call then gives `Raised` with the code "cancelled", and the child takes the next one. A
        worker that reports no progress is not stopped; `close` ends any.
        """
        with self._sending, suppress(Lost):  # it has ended: there is nothing to stop
            self._channel.send(Kind.CANCEL, number=self._number)

    def close(self, grace: float = 1.0) -> None:
        """End it: an idle worker leaves by itself, a busy one gets SIGTERM, then SIGKILL."""
        self._closing = True
        report = self._ended(End(patience=0.0 if self._turn.locked() else grace, grace=grace))
        self._over = self._over or self._died(report)

    def _ended(self, how: End | None = None) -> Report:
        if how is None or not how.stacks:
            self._channel.close()  # an idle worker sees this and leaves
        report = super()._ended(how)  # a hung one is looked at as it stands
        self._channel.close()
        return report

    def _died(self, report: Report, otherwise: str = "") -> Died:
        outcome = died(report, otherwise)
        if self._closing and (report.ended or outcome.exit_code == 0):
            return replace(outcome, reason="It was closed.")  # an idle worker leaves with code 0
        return outcome

    def _ready(self, watch: Watch, ears: _Ears) -> Outcome:
        if self._over is None and self._order is not None:
            order, self._order = self._order, None
            made = self._exchange(order, watch, ears)
            if isinstance(made, Raised):
                self._ended(End(patience=1.0))
                self._over = made
        return self._over or Returned(None)

    def _exchange(
        self,
        parts: list[Buffer],
        watch: Watch,
        ears: _Ears,
        halt: _Halt | None = None,
        meanwhile: Callable[[], object] = lambda: None,
    ) -> Outcome:
        self._number += 1
        try:
            with self._sending:
                self._channel.send_parts(Kind.CALL, parts, number=self._number, until=watch.until)
            meanwhile()
            while True:
                if halt is not None and not self._comes(watch, halt):
                    self.close()
                    break
                frame = self._channel.receive(watch.until)
                if frame.kind not in _SIGNS:
                    return _answer(frame)
                if frame.number == self._number:
                    watch.beat()
                    value = frame.value()
                    if frame.kind is Kind.PROGRESS:
                        watch.progress = value
                    if frame.kind in ears:
                        ears[frame.kind](value)
                    watch.check()
        except TimeoutError:
            self._over = watch.hung(self._ended(End(stacks=True)))
        except Lost as lost:
            self._over = self._died(self._ended(), f"{lost} It was ended.")
        except BaseException:  # Ctrl-C, or an ear of the caller: nobody would take the answer
            self.close()
            raise
        assert self._over is not None
        return self._over

    def _comes(self, watch: Watch, halt: _Halt) -> bool:
        """Wait for the next frame; False where the caller's patience has come to its end."""
        while not self._channel.ahead:
            if halt.wanted():
                self.cancel()
            if halt.overdue():
                return False
            if self._channel.ready(_sooner(watch.until, time.monotonic() + TICK_S)):
                return True
            watch.check()
        return True


class _Halt:
    """A caller's wish to stop a call: passed on once, and enforced `patience` seconds later."""

    def __init__(self, stop: threading.Event, patience: float) -> None:
        self._stop = stop
        self._patience = patience
        self._until: float | None = None

    def wanted(self) -> bool:
        """True once, when the wish is there."""
        if self._until is not None or not self._stop.is_set():
            return False
        self._until = time.monotonic() + self._patience
        return True

    def overdue(self) -> bool:
        """Whether the worker has had its time."""
        return self._until is not None and time.monotonic() >= self._until


def _sooner(until: float | None, tick: float) -> float:
    return tick if until is None else min(until, tick)


_SIGNS = frozenset({Kind.PROGRESS, Kind.TOLD})


def _ears(on_progress: OnProgress | None, on_told: OnTold | None) -> _Ears:
    ears: dict[Kind, OnTold] = {}
    if on_progress is not None:
        ears[Kind.PROGRESS] = lambda step: on_progress(*step)
    if on_told is not None:
        ears[Kind.TOLD] = on_told
    return ears


def _sendable(payload: Any) -> list[Buffer]:
    try:
        return dumped(payload)
    except Exception as error:
        raise InvalidInput(
            f"The payload ({type(payload).__name__}) cannot be sent to the child: {error}"
        ) from error


def _answer(frame: Frame) -> Outcome:
    try:
        value = frame.value()
    except Exception as error:  # noqa: BLE001  (foreign code of the value; it becomes the outcome)
        unread = RunFailed(f"The result came, but cannot be read here: {error}")
        unread.__cause__ = error
        return Raised(Failure.of(unread))
    return Returned(value) if frame.kind is Kind.RETURNED else Raised(value)

"""Callers whose requests a worker answers in one call: each has his report, his end, and may leave.

    party = Party(visits, records, ended)
    child.call(…, on_told=…, stop=party.cancel)     # `ended(number, result)`, one after the other
    party.left_over                                 # those without a result: the call has failed

The child computes a row for each of them to the end, also for one who has left meanwhile: what is
told of that row then is heard by nobody. Once all have left it is stopped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from jumar.contracts.errors import Cancelled, DeadlineExceeded
from jumar.contracts.results import GenerateResult, StageEventRecord
from jumar.engine.record import Record
from jumar.engine.visit import Visit
from jumar.engine.worker import Order, Part, heard
from jumar.runtime.run import Run

Ended = Callable[[int, GenerateResult], None]
"""Told of each of several requests, by its number, as soon as it has its result."""


class Party(Run):
    """The one run of several callers, on this side: what is told of it, each of them hears."""

    def __init__(self, visits: Sequence[Visit], records: Sequence[Record], ended: Ended) -> None:
        orders = [Order.like_it("generate", one.run, one.destination) for one in visits]
        super().__init__(visits[0].run.request, {"orders": orders}, cancel=_Deserted(self))
        self._records = records
        self._ended = ended
        self._open = dict(enumerate(one.run for one in visits))

    @property
    def left_over(self) -> list[int]:
        """Those who have no result."""
        return list(self._open)

    @property
    def left(self) -> float | None:
        """Seconds until the last of their deadlines; None where one of them has none."""
        lefts = [run.left for run in self._open.values()]
        known = [left for left in lefts if left is not None]
        return max(known, default=0.0) if len(known) == len(lefts) else None

    def check(self) -> None:
        """Let those go who have stopped, or have no time left. Raises Cancelled where all have."""
        for number, run in list(self._open.items()):
            try:
                run.check()
            except (Cancelled, DeadlineExceeded) as error:
                self._end(number, error)
        if not self._open:
            raise Cancelled(f"All callers had gone during {self.at}.")

    def hear(self, record: StageEventRecord, *, kept: bool = True) -> None:
        """An event of the call."""
        self._stage = record.stage
        for run in self._open.values():
            run.hear(record, kept=kept)

    def emit(self, event: str, *, kept: bool = True, **data: Any) -> None:
        """Tell each of them of something on this side."""
        for run in self._open.values():
            run.emit(event, kept=kept, **data)

    def warn(self, text: str) -> None:
        """Tell each of them of something that was changed."""
        for run in self._open.values():
            run.warn(text)

    def hear_of(self, number: int, told: Any) -> None:
        """An event of one of them, or the part that the child made for him."""
        if (run := self._open.get(number)) is None:
            return
        if not isinstance(told, Part):
            heard(told, run)
            return
        self._records[number].made = told.made
        told.add_to(run)
        self._end(number, None if told.failure is None else told.failure.error())

    def _end(self, number: int, error: Exception | None) -> None:
        del self._open[number]
        record = self._records[number]
        with record:
            if error is not None:
                raise error
        self._ended(number, record.result)


class _Deserted(threading.Event):
    """Set once all callers of a party have gone. Who asks lets them go."""

    def __init__(self, party: Party) -> None:
        super().__init__()
        self._party = party

    def is_set(self) -> bool:
        """Whether nobody is left."""
        try:
            self._party.check()
        except Cancelled:
            return True
        return False


def heard_together(told: Any, party: Party) -> None:
    """Take over what a worker has told of a call, or of one request in it (`(number, …)`)."""
    if len(told) == 2:
        party.hear_of(*told)
    else:
        heard(told, party)

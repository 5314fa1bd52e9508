"""In the child of a `WatchedModel`: the model itself, and its answers to orders."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import Cancelled
from jumar.contracts.results import BackendTimelineEntry, StageEventRecord
from jumar.engine.record import typed
from jumar.engine.seat import Seat, seat_for
from jumar.engine.steps import (
    Loaded,
    Made,
    accelerator_of,
    answer,
    answer_together,
    encode,
    let_go,
    load_model,
)
from jumar.isolate import tell
from jumar.isolate.outcomes import Failure
from jumar.runtime.artifacts import Destination
from jumar.runtime.families import family_of
from jumar.runtime.run import Run


@dataclass(frozen=True)
class Order:
    """What a worker is to do: `what` is a key of `DOES`; `left` the seconds that it has.

    `request` comes with the first order. Later ones name what is different in theirs (`changes`):
    reading a manifest again for each would take longer than all else on the way.
    """

    what: str
    request: ResolvedRequest | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    left: float | None = None
    destination: Destination | None = None

    @classmethod
    def first(cls, request: ResolvedRequest, left: float | None) -> Order:
        """To choose the device of a model; everything about it is known then."""
        return cls("place", request=request, left=left)

    @classmethod
    def like_it(cls, what: str, run: Run, destination: Destination | None = None) -> Order:
        """A later one, for a run of the same model."""
        asked = run.request
        changes = {"task": asked.task, "inputs": asked.inputs, "config": asked.config}
        return cls(what, None, changes, run.inputs, run.left, destination)


@dataclass
class Part:
    """A worker's answer: the part of the run that it saw, what came of it, and how it ended.

    Events, timings and warnings are not here: they were told while it ran. `seat` comes with the
    orders that change it. `broken`: the device does not answer any more, so the worker is of no
    further use.
    """

    seat: Seat | None = None
    value: Any = None
    made: Made = field(default_factory=Made)
    failure: Failure | None = None
    broken: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    timeline: list[BackendTimelineEntry] = field(default_factory=list)
    cache_hits: list[str] = field(default_factory=list)
    latent_stats: dict[str, float] | None = None

    def seen_of(self, run: Run) -> Part:
        """With what a run has recorded in the worker."""
        self.config, self.timeline = run.config, run.timeline
        self.cache_hits, self.latent_stats = run.cache_hits, run.latent_stats
        return self

    def add_to(self, run: Run) -> None:
        """Take it over into the caller's run."""
        run.config.update(self.config)
        run.timeline += self.timeline
        run.cache_hits += self.cache_hits
        run.latent_stats = self.latent_stats or run.latent_stats


def worker() -> Callable[[Order], Part]:
    """The target of `Zygote.spawn`."""
    return _Worker().answer


class _Worker:
    """One model, from the choice of its device on."""

    def __init__(self) -> None:
        self._seat = Seat()
        self._request: ResolvedRequest | None = None
        self._loaded: Loaded | None = None

    def answer(self, order: Order) -> Part:
        """Do what is asked. What goes wrong is in the part, with all that was before it."""
        cancel = threading.Event()
        self._request = order.request or self._request
        run = self._run(order, cancel)
        part = Part()
        try:
            part.value = DOES[order.what](self, order, run, part.made)
        except Exception as error:  # noqa: BLE001  (whatever a model raises; it goes to the report)
            part.failure = Failure.of(typed(error))
            part.broken = self._is_broken()
        part.seat = self._seat if order.what in SEATING else None
        part.seen_of(run)
        if part.failure is not None and self._seat.placement is not None and not part.broken:
            let_go(self._seat.placement)
        return part

    def place(self, order: Order, run: Run, made: Made) -> None:
        """Choose the device."""
        self._seat = seat_for(run.request, family_of(run.request.manifest))

    def load(self, order: Order, run: Run, made: Made) -> None:
        """Load the model there."""
        family = family_of(run.request.manifest)
        self._loaded = load_model(run.request, family, self._seat, run)
        self._seat.dtype = str(getattr(self._loaded.model, "dtype", self._seat.dtype))

    def generate(self, order: Order, run: Run, made: Made) -> None:
        """Answer a request with files."""
        assert self._loaded is not None and order.destination is not None
        answer(self._loaded, run, order.destination, made)

    def generate_together(self, order: Order, run: Run, made: Made) -> None:
        """Answer the requests of `order.inputs` in one call; each has its part as soon as it is
        there. `run` is told of the call.
        """
        assert self._loaded is not None and run.cancel is not None
        orders: list[Order] = order.inputs["orders"]
        runs = [self._run(one, run.cancel, number) for number, one in enumerate(orders)]
        destinations = [one.destination for one in orders if one.destination is not None]
        ended = answer_together(self._loaded, run, runs, destinations)
        for number, (files, error) in enumerate(ended):
            failure = None if error is None else Failure.of(typed(error))
            tell((number, Part(made=files, failure=failure).seen_of(runs[number])))

    def encode(self, order: Order, run: Run, made: Made) -> Any:
        """Answer texts with vectors: float32 [n, dimensions]."""
        assert self._loaded is not None
        return encode(self._loaded, run, made)

    def _run(self, order: Order, cancel: threading.Event, number: int | None = None) -> Run:
        """The run of an order; `number` where it is one of several of the same call."""
        assert self._request is not None, "the first order has the request"
        asked = ResolvedRequest(**{**vars(self._request), **order.changes})
        deadline = None if order.left is None else time.monotonic() + order.left
        return _Told(asked, order.inputs, cancel, deadline, number)

    def _is_broken(self) -> bool:
        """Whether the device raises at the mere question: then every later call would."""
        placement = self._seat.placement
        if placement is None:
            return False
        try:
            accelerator_of(placement).synchronize(placement.device.index)
        except Exception:  # noqa: BLE001  (the failure before it is the one that is told)
            return True
        return False


DOES: dict[str, Callable[[_Worker, Order, Run, Made], Any]] = {
    "place": _Worker.place,
    "load": _Worker.load,
    "generate": _Worker.generate,
    "generate_together": _Worker.generate_together,
    "encode": _Worker.encode,
}


SEATING = ("place", "load")
"""Orders that change where the model sits."""


def heard(told: Any, run: Run) -> None:
    """Take over, into the caller's run, what a worker has told."""
    event, stage, timestamp_ms, data, kept = told
    run.hear(
        StageEventRecord(event=event, stage=stage, timestamp_ms=timestamp_ms, data=data), kept=kept
    )


class _Told(Run):
    """A run whose events the caller's side hears of and keeps; `number` where it is one of several
    of the same call.
    """

    def __init__(
        self,
        request: ResolvedRequest,
        inputs: Mapping[str, Any],
        stop: threading.Event,
        deadline: float | None,
        number: int | None,
    ) -> None:
        super().__init__(request, inputs, cancel=stop, deadline=deadline)
        self._stop = stop
        self._number = number

    def emit(self, event: str, *, kept: bool = True, **data: Any) -> None:
        """Pass an event on; a cancel that comes back is noticed at the run's next step."""
        told = (event, self._stage, time.time_ns() // 1_000_000, data, kept)
        number = self._number
        try:
            tell(told if number is None else (number, told), at_once=not self._is_last(event, data))
        except Cancelled:
            self._stop.set()

    def _is_last(self, event: str, data: Mapping[str, Any]) -> bool:
        """Whether something else follows at once: the next stage, or the vectors. The other side
        need not wake up for this alone, least of all while the cores compute.
        """
        if event == "step":
            return self._stage == "encode" and bool(data["done"] == data["total"])
        return event in ("stage_finished", "tokenized")

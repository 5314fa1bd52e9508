"""One run as a family sees it: stages, steps, warnings; and what the report will say of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import Cancelled, DeadlineExceeded
from jumar.contracts.results import BackendTimelineEntry, StageEventRecord

Listener = Callable[[StageEventRecord], None]

MAX_EVENTS = 512
"""Events kept for the report; listeners hear all of them."""


class Run:
    """The life of one request, from the first stage to the report.

    A family calls `stage` around each of its steps and `step` inside loops; both raise Cancelled
    or DeadlineExceeded as soon as the caller has stopped or the deadline (a `time.monotonic`
    value) has passed. `inputs` are those that the family's `prepare` made. `after_stage` is called
    when a stage has come to its end. `known` are fields of the report that whoever asked for the
    run fills in: the job, the time in a queue, the goldens of the model.
    """

    def __init__(
        self,
        request: ResolvedRequest,
        inputs: Mapping[str, Any],
        *,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        deadline: float | None = None,
    ) -> None:
        self.request = request
        self.inputs = inputs
        self.config: dict[str, Any] = dict(request.config)
        self.timings: dict[str, float] = {}
        self.events: list[StageEventRecord] = []
        self.timeline: list[BackendTimelineEntry] = []
        self.warnings: list[str] = []
        self.cache_hits: list[str] = []
        self.latent_stats: dict[str, float] | None = None
        self.known: dict[str, Any] = {}
        self.after_stage: Callable[[], None] = lambda: None
        self.cancel = cancel
        self._listener = listener
        self._deadline = deadline
        self._stage = "start"

    @property
    def at(self) -> str:
        """The stage that it is in; after a failure, the one in which that happened."""
        return self._stage

    @property
    def left(self) -> float | None:
        """Seconds until the deadline; None where there is none."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def public_config(self) -> dict[str, Any]:
        """`config` as the report shows it: secrets masked."""
        params = self.request.spec.config
        return {
            key: "***" if value is not None and key in params and params[key].secret else value
            for key, value in self.config.items()
        }

    def check(self) -> None:
        """Raise Cancelled or DeadlineExceeded where it is time to stop."""
        if self.cancel is not None and self.cancel.is_set():
            raise Cancelled(f"Stopped by the caller during {self._stage}.")
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise DeadlineExceeded(f"The deadline passed during {self._stage}.")

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage into `timings["<name>_ms"]` (added up where it runs again)."""
        outer, self._stage = self._stage, name
        self.check()
        self.emit("stage_started")
        begun = time.perf_counter()
        try:
            yield
            self.after_stage()
        except BaseException as error:
            self._clock(name, begun)
            self._stage = name  # an inner stage that failed leaves its own name here
            self.emit(
                "stage_failed",
                error=f"{type(error).__name__}: {error}",
                ms=self.timings[f"{name}_ms"],
            )
            raise
        self._clock(name, begun)
        self.emit("stage_finished", ms=self.timings[f"{name}_ms"])
        self._stage = outer

    def step(self, done: int, total: int | None = None, *, kept: bool = True, **data: Any) -> None:
        """Say how far the present stage is, and stop here if it is time to stop.

        Only listeners hear a step that is not `kept`: bytes of a download, many times a second.
        """
        self.emit("step", kept=kept, done=done, total=total, **data)
        self.check()

    def warn(self, text: str) -> None:
        """Tell the caller of something changed or left out on the way to the result."""
        if text not in self.warnings:
            self.warnings.append(text)
            self.emit("warning", text=text)

    def emit(self, event: str, *, kept: bool = True, **data: Any) -> None:
        """Record an event of the present stage, where it is kept, and pass it to the listener."""
        record = StageEventRecord(
            event=event, stage=self._stage, timestamp_ms=time.time_ns() // 1_000_000, data=data
        )
        self._keep(record, kept)

    def hear(self, record: StageEventRecord, *, kept: bool = True) -> None:
        """Take over an event of the same run in another process, and what it says."""
        self._stage = record.stage
        if "ms" in record.data:
            self.timings[f"{record.stage}_ms"] = record.data["ms"]
        if record.event == "warning":
            if record.data["text"] in self.warnings:
                return
            self.warnings.append(record.data["text"])
        self._keep(record, kept)

    def _keep(self, record: StageEventRecord, kept: bool) -> None:
        if kept and len(self.events) < MAX_EVENTS:
            self.events.append(record)
        if self._listener is not None:
            self._listener(record)

    def _clock(self, name: str, begun: float) -> None:
        spent = (time.perf_counter() - begun) * 1e3
        self.timings[f"{name}_ms"] = round(self.timings.get(f"{name}_ms", 0.0) + spent, 3)

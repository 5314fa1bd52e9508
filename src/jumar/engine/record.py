"""The report of a run, whatever becomes of it."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable
from types import TracebackType

from jumar.contracts.errors import (
    Cancelled,
    DependencyMissing,
    DeviceUnavailable,
    InsufficientMemory,
    InvalidRequest,
    JumarError,
    OutputFailed,
    RunFailed,
)
from jumar.contracts.results import ErrorDetail, GenerateResult, RunReport
from jumar.devices import remedy
from jumar.engine.seat import Seat
from jumar.engine.steps import Made
from jumar.runtime.artifacts import Destination
from jumar.runtime.run import Run

log = logging.getLogger(__name__)

REFUSALS = (InvalidRequest, DeviceUnavailable, DependencyMissing)
"""What a request is refused with before anything is fetched, loaded or written."""


class Owed:
    """Reports of runs that are over, not on disk yet: written while the next answer is computed."""

    def __init__(self) -> None:
        self._writes: list[Callable[[], None]] = []

    def __bool__(self) -> bool:
        return bool(self._writes)

    def add(self, write: Callable[[], None]) -> None:
        """Let a report wait."""
        self._writes.append(write)

    def settle(self) -> None:
        """Write them."""
        while self._writes:
            self._writes.pop(0)()


class Record:
    """Around a run: what it raises becomes the report's error, and the report is written.

    `seat` is read when the report is written: a worker may take another one meanwhile. Only
    KeyboardInterrupt and SystemExit leave it again, after the report is on disk; and a refusal
    before there was a device, which leaves no report.

    `owed` takes what writes the report, for who wants the result before that is on disk.
    """

    def __init__(
        self,
        run: Run,
        destination: Destination,
        seat: Callable[[], Seat],
        owed: Owed | None = None,
    ) -> None:
        self.run = run
        self.made = Made()
        self._owed = owed
        self._seat = seat
        self._destination = destination
        self._run_id = f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"
        self._begun = time.perf_counter()

    @property
    def result(self) -> GenerateResult:
        """The result; complete after the `with` block."""
        return self._result

    def __enter__(self) -> Record:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if self._seat().placement is None and isinstance(error, REFUSALS):
            return False
        report = self._report(None if error is None else typed(error))
        self._result = GenerateResult(
            outputs=[] if report.error else list(self.made.artifacts), metadata=report
        )
        if self._owed is None:
            self._write(report)
        else:
            self._owed.add(lambda: self._write(report))
        return error is None or isinstance(error, Exception)

    def _write(self, report: RunReport) -> None:
        try:
            self._destination.write_text(
                f"{report.run_id}.report.json", report.model_dump_json(indent=1)
            )
        except OutputFailed as unwritten:
            # The run is over and its result is in hand; that the report is not on disk is said.
            report.warnings = [*report.warnings, f"This report is not on disk: {unwritten}"]
            log.warning("The report of run %s is not on disk: %s", report.run_id, unwritten)

    def _report(self, error: JumarError | None) -> RunReport:
        run, seat, made = self.run, self._seat(), self.made
        placement = seat.placement
        total = round((time.perf_counter() - self._begun) * 1e3, 3)
        return RunReport(
            run_id=self._run_id,
            task=run.request.task,
            model=run.request.manifest.id,
            backend=placement.backend if placement else run.request.backend,
            execution_mode="isolated" if seat.worker else "inline",
            worker_id=seat.worker,
            timings={**run.timings, "total_ms": total},
            memory={} if made.peak_mb is None else {"peak_mb": made.peak_mb},
            backend_timeline=run.timeline,
            config_resolved=run.public_config(),
            artifacts=list(made.artifacts),
            error=None if error is None else error.message,
            error_detail=None if error is None else ErrorDetail.model_validate(error.detail()),
            latent_stats=run.latent_stats,
            cache_hits=run.cache_hits,
            device_placement={"model": placement.device.shown} if placement else {},
            stream_events=run.events,
            device=placement.device.label if placement else None,
            fingerprint=seat.fingerprint,
            operators=seat.operators,
            warnings=run.warnings,
            inputs=dict(run.request.inputs),
            config_origins=dict(run.request.origins),
            **run.known,
        )


def typed(error: BaseException) -> JumarError:
    """The error of the tree that says the same; the original stays its cause."""
    if isinstance(error, JumarError):
        return error
    typed: JumarError
    if isinstance(error, KeyboardInterrupt):
        typed = Cancelled("Stopped by the keyboard.")
    elif isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        typed = InsufficientMemory(
            "The device ran out of memory.",
            hint="Take a smaller size or batch, preset low-vram, or another device.",
        )
    else:
        hint = remedy(str(error)) or "The cause is the model's own."
        typed = RunFailed("The model failed while it ran.", hint=hint)
    typed.__cause__ = error
    return typed

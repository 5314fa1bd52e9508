"""Jobs on their way: asked, listened to, cancelled, and written down whatever becomes of them.

jobs = Jobs(store, visit=visit_of, ask=house.answer)
job = jobs.submit(request)             # queued; raises what `ask` raises at once
jobs.cancel(job.id)                    # at any stage
jobs.close()

Nothing here may reach into a model's run: what a store does slowly or not at all is done by a
thread of its own, and a job that cannot be written down is still told of here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from jumar.contracts.errors import Cancelled, JumarError, NotPermitted, NotReady, RunFailed
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import ErrorDetail, GenerateResult, StageEventRecord
from jumar.engine.jobs.base import Job, JobStore, now_ms
from jumar.engine.record import typed
from jumar.engine.visit import Visit
from jumar.runtime.run import Listener

log = logging.getLogger(__name__)

STEP_S = 0.1
"""Steps of a job come to the store at most this often, in seconds."""

VisitOf = Callable[[GenerateRequest, Listener, threading.Event], Visit]
Ask = Callable[[Visit], "Future[GenerateResult]"]


@dataclass
class _Live:
    """A job that has not come to its end, in this process."""

    job: Job
    cancel: threading.Event = field(default_factory=threading.Event)
    lost: bool = False
    future: Future[GenerateResult] | None = None
    stepped: float = 0.0


class Jobs:
    """The jobs of one server. Every method may be called from any thread."""

    def __init__(self, store: JobStore, *, visit: VisitOf, ask: Ask) -> None:
        self.store = store
        self._visit = visit
        self._ask = ask
        self._live: dict[str, _Live] = {}
        self._lock = threading.Lock()
        self._closing = False
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="jumar-jobs")
        store.attend(self._halt, self._lose)

    def recover(self) -> None:
        """Take over the jobs of servers that have ended: what ran there has failed, what waited is
        asked again, the oldest first. At a start, and now and then where servers share a store.
        """
        if self._closing:
            return
        for job in reversed(self.store.orphans()):
            try:
                if job.state == "running":
                    raise RunFailed("The server ended while the job ran.", hint="Send it again.")
                self._start(_Live(job))
            except JumarError as error:
                self._end(job, "failed", error)
                self._keep(job)

    def submit(self, request: GenerateRequest, *, trace_id: str | None = None) -> Job:
        """Let a request wait for its answer.

        Raises:
            JumarError: whatever is wrong with it, Overloaded too; there is no job then.
        """
        live = _Live(Job(request=request, backend=request.backend, trace_id=trace_id))
        self.store.put(live.job)
        try:
            self._start(live)
        except BaseException:
            self.store.delete(live.job.id)
            raise
        return live.job.model_copy()

    def get(self, job_id: str) -> Job:
        """The job as it is now; raises NotFound."""
        with self._lock:
            if job_id in self._live:
                return self._live[job_id].job.model_copy()
        return self.store.get(job_id)

    def newest(self, *, state: str | None = None, limit: int = 100) -> list[Job]:
        """Jobs as they are now, newest first."""
        kept = self.store.newest(state=state, limit=limit)
        with self._lock:  # the store may be a moment behind
            live = {job_id: one.job.model_copy() for job_id, one in self._live.items()}
        now = [live.get(job.id, job) for job in kept]
        return [job for job in now if state in (None, job.state)]

    def cancel(self, job_id: str) -> Job:
        """Stop a job: one that waits at once, one that runs at its next step. Raises NotFound."""
        if self._halt(job_id):
            return self.get(job_id)
        job = self.store.get(job_id)
        if not job.over:
            self.store.cancel(job_id)  # it is another server's
            job.cancel_requested = True
        return job

    def delete(self, job_id: str) -> Job:
        """Cancel a job; forget one that has come to its end. Raises NotFound."""
        job = self.cancel(job_id)
        if job.over:
            self.store.delete(job_id)
        return job

    @property
    def live(self) -> dict[str, int]:
        """How many there are of each state that is not an end."""
        with self._lock:
            states = [live.job.state for live in self._live.values()]
        return {state: states.count(state) for state in ("queued", "running")}

    def stop(self) -> None:
        """From now on a job that is refused while it waits is one for the next start."""
        self._closing = True

    def close(self) -> None:
        """Write down what is left to be written. The store stays open: it is its owner's."""
        self.stop()
        self._writer.shutdown(wait=True)

    def _halt(self, job_id: str) -> bool:
        """Stop a job of this server; False where it has none of that name."""
        with self._lock:
            live = self._live.get(job_id)
            if live is None:
                return False
            live.job.cancel_requested = True
        live.cancel.set()
        if live.future is not None:
            live.future.cancel()
        return True

    def _lose(self, job_id: str) -> None:
        """Stop a job that is another server's by now, and write nothing more of it."""
        with self._lock:
            live = self._live.get(job_id)
            if live is None:
                return
            live.lost = True
        log.warning("Another server has taken %s over: this one was silent for too long.", job_id)
        self._halt(job_id)

    def _start(self, live: _Live) -> None:
        job = live.job
        visit = self._visit(job.request, lambda event: self._hear(live, event), live.cancel)
        visit.run.known |= {"job_id": job.id, "trace_id": job.trace_id}
        with self._lock:
            self._live[job.id] = live
        try:
            live.future = self._ask(visit)
        except BaseException:
            with self._lock:
                del self._live[job.id]
            raise
        live.future.add_done_callback(lambda done: self._done(live, done))
        if live.cancel.is_set():  # it was cancelled between being known and being asked
            live.future.cancel()

    def _hear(self, live: _Live, event: StageEventRecord) -> None:
        """An event of the run: in the thread that serves the model, so nothing here waits."""
        job = live.job
        if event.event == "step":
            if (now := time.monotonic()) - live.stepped < STEP_S:
                return
            live.stepped = now
            done, total = event.data.get("done"), event.data.get("total")
            job.progress = {"stage": event.stage, "done": done, "total": total}
        if job.state == "queued":
            with self._lock:
                job.state, job.started_at_ms = "running", now_ms()
        self._write(self._keep, job.model_copy())
        self._write(self.store.tell, job.id, event)

    def _done(self, live: _Live, future: Future[GenerateResult]) -> None:
        job, result = live.job, None
        error: JumarError | None = None
        try:
            result = future.result()
        except CancelledError:
            error = Cancelled("Stopped by the caller while it waited.")
        except Exception as raised:  # noqa: BLE001  (a job has an end whatever it was)
            error = typed(raised)
        with self._lock:
            waits = self._closing and job.state == "queued" and isinstance(error, NotReady)
            if waits or live.lost:
                self._live.pop(job.id)
                return
        if result is not None:
            self._answered(job, result)
        else:
            cancelled = isinstance(error, Cancelled)
            self._end(job, "cancelled" if cancelled else "failed", error)
        self._write(self._finished, job)

    def _answered(self, job: Job, result: GenerateResult) -> None:
        report = result.metadata
        job.result, job.error, job.error_detail = result, report.error, report.error_detail
        job.worker_id, job.execution_mode = report.worker_id, report.execution_mode
        detail = report.error_detail
        cancelled = detail is not None and detail.code == Cancelled.code
        self._end(job, "succeeded" if result.ok else "cancelled" if cancelled else "failed", None)

    def _end(self, job: Job, state: Any, error: JumarError | None) -> None:
        if error is not None:
            job.error = error.message
            job.error_detail = ErrorDetail.model_validate(error.detail())
        job.finished_at_ms = now_ms()
        job.state = state

    def _keep(self, job: Job) -> None:
        try:
            self.store.put(job)
        except NotPermitted as error:
            log.warning("%s is not written down: %s", job.id, error)

    def _finished(self, job: Job) -> None:
        self._keep(job)
        with self._lock:
            self._live.pop(job.id, None)

    def _write(self, write: Callable[..., None], *what: Any) -> None:
        """Have it written, after what came before; a store that fails is asked again."""

        def written() -> None:
            for pause in (0.0, 0.1, 0.5, 2.0, None):
                try:
                    write(*what)
                    return
                except JumarError:
                    log.exception("A job could not be written down.")
                if pause is not None:
                    time.sleep(pause)

        self._writer.submit(written)

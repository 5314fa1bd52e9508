"""What a job is, and what a store of jobs has to offer."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal, Protocol
from uuid import uuid4

from pydantic import Field

from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import Contract, ErrorDetail, GenerateResult, StageEventRecord

JobState = Literal["queued", "running", "succeeded", "failed", "cancelled"]
OVER: frozenset[str] = frozenset({"succeeded", "failed", "cancelled"})

EVENTS = 512
"""Events of a job that a store keeps: the newest."""

Change = Callable[[str], None]
"""Called with a job's id after it has changed, from any thread: it must not wait for anything."""


def now_ms() -> int:
    """Milliseconds of the Unix epoch."""
    return time.time_ns() // 1_000_000


class Job(Contract):
    """A request on its way. Names are OmniRT's where it has the field; `progress` is the newest
    step of the stage that runs: `{stage, done, total}`.
    """

    id: str = Field(default_factory=lambda: f"job_{uuid4().hex}")
    state: JobState = "queued"
    request: GenerateRequest
    backend: str
    result: GenerateResult | None = None
    error: str | None = None
    trace_id: str | None = None
    worker_id: str | None = None
    enqueued_at_ms: int = Field(default_factory=now_ms)
    started_at_ms: int | None = None
    finished_at_ms: int | None = None
    execution_mode: str | None = None
    # Jumar's own:
    error_detail: ErrorDetail | None = None
    progress: dict[str, Any] | None = None
    cancel_requested: bool = False

    @property
    def over(self) -> bool:
        """Whether it has come to its end."""
        return self.state in OVER


class JobStore(Protocol):
    """Where jobs are kept, each that is not over by one server at a time: whoever put it first.

    Any thread may call any method; what fails raises `OutputFailed`.
    """

    name: str

    def put(self, job: Job) -> None:
        """Keep a job as it is now.

        Raises:
            NotPermitted: another server has taken it over.
        """
        ...

    def get(self, job_id: str) -> Job:
        """The job.

        Raises:
            NotFound: there is none, or not any more.
        """
        ...

    def newest(self, *, state: str | None = None, limit: int = 100) -> list[Job]:
        """Jobs, newest first."""
        ...

    def delete(self, job_id: str) -> None:
        """Forget a job and its events."""
        ...

    def tell(self, job_id: str, event: StageEventRecord) -> None:
        """Keep an event of a job, and let the oldest go where there are more than `EVENTS`."""
        ...

    def events(self, job_id: str, after: int = 0) -> list[tuple[int, StageEventRecord]]:
        """The events that are kept and their numbers, counted from 1, above `after`."""
        ...

    def sweep(self, before_ms: int) -> int:
        """Forget jobs that came to their end before a moment; how many."""
        ...

    def watch(self, heard: Change) -> Callable[[], None]:
        """Have `heard` called after every change of any job, until what is returned is called."""
        ...

    def orphans(self) -> list[Job]:
        """Jobs that are not over and whose server has ended; from now on they are this server's.

        Each is given out once, to one server.
        """
        ...

    def cancel(self, job_id: str) -> None:
        """Have the server that has a job called (`attend`), where it is another than this."""
        ...

    def attend(self, cancel: Callable[[str], object], lost: Callable[[str], object]) -> None:
        """Have `cancel` called when another server's caller stops a job that is here, and `lost`
        when another server has taken a job over, because this one was silent for too long.
        """
        ...

    def close(self) -> None:
        """Let go of files and connections, and of jobs that still wait."""
        ...

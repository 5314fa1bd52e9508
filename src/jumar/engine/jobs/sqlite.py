"""Jobs in one SQLite file: they survive a restart, and one process at a time has them."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.contracts.errors import NotFound, NotPermitted, OutputFailed
from jumar.contracts.results import StageEventRecord
from jumar.engine.jobs.base import EVENTS, Change, Job

_SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, enqueued INTEGER NOT NULL, finished INTEGER,
    body TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS jobs_by_age ON jobs (enqueued);
CREATE TABLE IF NOT EXISTS events (
    job TEXT NOT NULL, number INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job, number)
) WITHOUT ROWID;
"""
_NOT_OVER = (
    "SELECT body FROM jobs WHERE state IN ('queued', 'running') ORDER BY enqueued DESC, rowid DESC"
)


class SqliteStore:
    """A `JobStore` in a file, or in memory (`:memory:`).

    Raises:
        NotPermitted: another process has the file open.
        OutputFailed: it cannot be opened, or is no SQLite file.
    """

    name = "sqlite"

    def __init__(self, file: str | Path) -> None:
        self._lock = threading.Lock()
        self._watching: list[Change] = []
        self._file = str(file)
        try:
            self._db = sqlite3.connect(
                self._file, timeout=0, check_same_thread=False, isolation_level=None
            )
            # Exclusive: a job that is "running" here is of this process, or of one that is dead.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.executescript(_SCHEMA)
            self._left: list[str] = [body for (body,) in self._db.execute(_NOT_OVER)]
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise NotPermitted(
                    f"Another server has {file} open.", hint="Give each its own --data-dir."
                ) from error
            raise OutputFailed(f"Cannot open {file}.") from error
        except sqlite3.DatabaseError as error:
            raise OutputFailed(f"{file} is no SQLite file.") from error

    def put(self, job: Job) -> None:
        """Keep a job as it is now."""
        row = (job.id, job.state, job.enqueued_at_ms, job.finished_at_ms, job.model_dump_json())
        with self._told() as db:
            db.execute("INSERT OR REPLACE INTO jobs VALUES (?, ?, ?, ?, ?)", row)
        self._changed(job.id)

    def get(self, job_id: str) -> Job:
        """The job; raises NotFound."""
        with self._told() as db:
            row = db.execute("SELECT body FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if row is None:
            raise NotFound(f"There is no job {job_id[:80]!r}.", hint="Jobs are kept for a time.")
        return Job.model_validate_json(row[0])

    def newest(self, *, state: str | None = None, limit: int = 100) -> list[Job]:
        """Jobs, newest first."""
        which, values = ("", ()) if state is None else ("WHERE state = ?", (state,))
        order = "ORDER BY enqueued DESC, rowid DESC LIMIT ?"
        with self._told() as db:
            rows = db.execute(f"SELECT body FROM jobs {which} {order}", (*values, limit)).fetchall()
        return [Job.model_validate_json(body) for (body,) in rows]

    def delete(self, job_id: str) -> None:
        """Forget a job and its events."""
        with self._told() as db:
            db.execute("DELETE FROM events WHERE job = ?", (job_id,))
            db.execute("DELETE FROM jobs WHERE id = ?", (job_id,))
        self._changed(job_id)

    def tell(self, job_id: str, event: StageEventRecord) -> None:
        """Keep an event of a job."""
        with self._told() as db:
            db.execute(
                "INSERT INTO events SELECT ?1, coalesce(max(number), 0) + 1, ?2"
                " FROM events WHERE job = ?1",
                (job_id, event.model_dump_json()),
            )
            db.execute(
                "DELETE FROM events WHERE job = ?1 AND number <="
                " (SELECT max(number) FROM events WHERE job = ?1) - ?2",
                (job_id, EVENTS),
            )
        self._changed(job_id)

    def events(self, job_id: str, after: int = 0) -> list[tuple[int, StageEventRecord]]:
        """The events that are kept and their numbers, above `after`."""
        query = "SELECT number, body FROM events WHERE job = ? AND number > ? ORDER BY number"
        with self._told() as db:
            rows = db.execute(query, (job_id, after)).fetchall()
        return [(number, StageEventRecord.model_validate_json(body)) for number, body in rows]

    def sweep(self, before_ms: int) -> int:
        """Forget jobs that came to their end before a moment; how many."""
        with self._told() as db:
            old = "SELECT id FROM jobs WHERE finished < ?"
            db.execute(f"DELETE FROM events WHERE job IN ({old})", (before_ms,))
            gone: int = db.execute("DELETE FROM jobs WHERE finished < ?", (before_ms,)).rowcount
        return gone

    def watch(self, heard: Change) -> Callable[[], None]:
        """Have `heard` called after every change, until what is returned is called."""
        self._watching = [*self._watching, heard]

        def stop() -> None:
            self._watching = [one for one in self._watching if one is not heard]

        return stop

    def orphans(self) -> list[Job]:
        """What the last server left: the first time only, as nobody else has the file."""
        left, self._left = self._left, []
        return [Job.model_validate_json(body) for body in left]

    def cancel(self, job_id: str) -> None:
        """There are no other servers."""

    def attend(self, cancel: Callable[[str], object], lost: Callable[[str], object]) -> None:
        """There are no other servers."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def _changed(self, job_id: str) -> None:
        for heard in self._watching:
            heard(job_id)

    @contextmanager
    def _told(self) -> Iterator[Any]:
        """The database for one transaction; its refusals as OutputFailed."""
        try:
            with self._lock, self._db:
                self._db.execute("BEGIN")
                yield self._db
        except sqlite3.Error as error:
            raise OutputFailed(f"The job store {self._file} failed: {error}.") from error

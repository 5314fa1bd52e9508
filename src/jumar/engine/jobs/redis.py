"""Jobs in Redis (6.2 or later): servers on several machines share them.

A server says every few seconds that it is there. One that has not said so for `lease_s` has ended,
and another takes its jobs over, each in the same script, so that it goes to one server only. Should
the silent one come back all the same, it drops them, and what it writes of them is refused.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

from jumar.contracts.errors import (
    DependencyMissing,
    InvalidValue,
    NotFound,
    NotPermitted,
    NotReady,
    OutputFailed,
)
from jumar.contracts.results import StageEventRecord
from jumar.engine.jobs import lua
from jumar.engine.jobs.base import EVENTS, Change, Job

if TYPE_CHECKING:
    from redis import Redis
    from redis.client import PubSub

log = logging.getLogger(__name__)

LEASE_S = 15.0
PATIENCE_S = 5.0
"""How long an answer of Redis may take."""
AGAIN_S = 1.0
"""Between two tries to reach it."""


class RedisStore:
    """A `JobStore` at `redis://HOST:PORT/DB`, `rediss://…` (TLS) or `unix://PATH`.

    Raises:
        DependencyMissing: redis-py is not installed.
        InvalidValue: an address that is none.
        OutputFailed: nobody answers there, or with a refusal.
    """

    name = "redis"

    def __init__(self, url: str, *, lease_s: float = LEASE_S) -> None:
        self._where = _without_password(url)
        self._me, self._lease_s = uuid4().hex, lease_s
        self._mine: set[str] = set()
        self._doubted = False  # whether somebody may have taken jobs of it, unseen so far
        self._watching: list[Change] = []
        self._cancel: Callable[[str], object] = _nothing
        self._lost: Callable[[str], object] = _nothing
        self._db, self._failure = _opened(url, self._where)
        self._put, self._tell, self._claim, self._delete = map(
            self._db.register_script, (lua.PUT, lua.TELL, lua.CLAIM, lua.DELETE)
        )
        self._renew()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._attend, name="jumar-redis", daemon=True)
        self._thread.start()

    def put(self, job: Job) -> None:
        """Keep a job as it is now; raises NotPermitted where another server has it."""
        finished = "" if job.finished_at_ms is None else str(job.finished_at_ms)
        asked, body = str(job.enqueued_at_ms), job.model_dump_json()
        with self._answering():
            kept = self._put(args=[job.id, job.state, asked, finished, body, self._me])
        if not kept:
            raise NotPermitted(f"Another server has taken {job.id} over.")
        if job.over:
            self._mine.discard(job.id)
        else:
            self._mine.add(job.id)

    def get(self, job_id: str) -> Job:
        """The job; raises NotFound."""
        with self._answering():
            body: Any = self._db.get(lua.key("job", job_id))
        if body is None:
            raise NotFound(f"There is no job {job_id[:80]!r}.", hint="Jobs are kept for a time.")
        return Job.model_validate_json(body)

    def newest(self, *, state: str | None = None, limit: int = 100) -> list[Job]:
        """Jobs, newest first."""
        which = lua.key("jobs") if state is None else lua.key("state", state)
        with self._answering():
            names: Any = self._db.zrevrange(which, 0, limit - 1)
            bodies: Any = self._db.mget([lua.key("job", name) for name in names]) if names else []
        return [Job.model_validate_json(body) for body in bodies if body is not None]

    def delete(self, job_id: str) -> None:
        """Forget a job and its events."""
        with self._answering():
            self._delete(args=[job_id])
        self._mine.discard(job_id)

    def tell(self, job_id: str, event: StageEventRecord) -> None:
        """Keep an event of a job."""
        with self._answering():
            self._tell(args=[job_id, event.model_dump_json(), EVENTS])

    def events(self, job_id: str, after: int = 0) -> list[tuple[int, StageEventRecord]]:
        """The events that are kept and their numbers, above `after`."""
        with self._answering(), self._db.pipeline(transaction=True) as both:
            both.lrange(lua.key("events", job_id), 0, -1)
            both.get(lua.key("told", job_id))
            bodies, told = both.execute()
        numbered = enumerate(bodies, int(told or 0) - len(bodies) + 1)
        return [
            (number, StageEventRecord.model_validate_json(body))
            for number, body in numbered
            if number > after
        ]

    def sweep(self, before_ms: int) -> int:
        """Forget jobs that came to their end before a moment; how many."""
        with self._answering():
            old: Any = self._db.zrangebyscore(lua.key("over"), "-inf", f"({before_ms}")
            return sum(int(self._delete(args=[name])) for name in old)

    def watch(self, heard: Change) -> Callable[[], None]:
        """Have `heard` called after every change, whichever server makes it."""
        self._watching = [*self._watching, heard]

        def stop() -> None:
            self._watching = [one for one in self._watching if one is not heard]

        return stop

    def orphans(self) -> list[Job]:
        """Jobs of servers that are not heard of any more."""
        with self._answering():
            bodies: Any = self._claim(args=[self._me])
        jobs = [Job.model_validate_json(body) for body in bodies]
        self._mine.update(job.id for job in jobs)
        return jobs

    def cancel(self, job_id: str) -> None:
        """Have its server hear; raises NotReady where that does not listen now."""
        with self._answering():
            owner = self._db.hget(lua.key("owners"), job_id)
            heard = self._db.publish(lua.key("cancel", str(owner)), job_id)
        if not heard:
            raise NotReady(
                f"The server that has {job_id} does not answer.",
                hint=f"Try again: after {self._lease_s:g} s another server takes the job over.",
            )

    def attend(self, cancel: Callable[[str], object], lost: Callable[[str], object]) -> None:
        """Who is called from the thread that listens."""
        self._cancel, self._lost = cancel, lost

    def close(self) -> None:
        """End the lease: jobs that wait are free for others at once."""
        self._closing.set()
        try:
            with self._answering():
                self._db.publish(lua.key("cancel", self._me), "")  # wakes the thread up
                self._thread.join(PATIENCE_S)
                self._db.delete(lua.key("server", self._me))
        except OutputFailed as error:
            log.warning("The lease of this server runs out by itself: %s", error)
        self._db.close()

    def _attend(self) -> None:
        """Renew the lease and listen, until the store is closed."""
        line: PubSub | None = None
        due = 0.0
        while not self._closing.is_set():
            try:
                with self._answering():
                    line = line or self._listening()
                    if time.monotonic() >= due:
                        self._renew()
                        due = time.monotonic() + self._lease_s / 3
                    wait = max(0.0, due - time.monotonic())
                    message = line.get_message(ignore_subscribe_messages=True, timeout=wait)
            except OutputFailed as error:
                log.warning("%s Tried again after %g s.", error, AGAIN_S)
                line = None
                self._closing.wait(AGAIN_S)
                continue
            if message:
                self._heard(message["channel"], message["data"])

    def _listening(self) -> PubSub:
        line: PubSub = self._db.pubsub()  # type: ignore[no-untyped-call]
        line.subscribe(lua.key("changed"), lua.key("cancel", self._me))
        return line

    def _heard(self, channel: str, job_id: str) -> None:
        if channel == lua.key("changed"):
            for heard in self._watching:
                heard(job_id)
        else:
            self._cancel(job_id)

    def _renew(self) -> None:
        """Say that this server is there. Where the lease had run out, somebody may have taken
        jobs of it.
        """
        with self._answering():
            mine = tuple(self._mine)
            lease = round(self._lease_s * 1e3)
            before = self._db.set(lua.key("server", self._me), "here", px=lease, get=True)
            # Where asking fails, the next lease is there before, and the doubt is not over.
            self._doubted = self._doubted or before is None
            if not mine or not self._doubted:
                return
            owners: Any = self._db.hmget(lua.key("owners"), list(mine))
        for job_id, owner in zip(mine, owners, strict=True):
            if owner not in (self._me, None):
                self._lost(job_id)
                self._mine.discard(job_id)
        self._doubted = False

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Refusals of Redis, and of the way there, as OutputFailed."""
        try:
            yield
        except self._failure as error:
            raise OutputFailed(f"The job store at {self._where} failed: {error}.") from error


def _opened(url: str, where: str) -> tuple[Redis, type[Exception]]:
    """A client, which has not asked anything yet, and what it raises."""
    try:
        from redis import Redis, RedisError
    except ImportError as error:
        raise DependencyMissing(
            "A job store in Redis needs redis-py.", hint="pip install 'jumar[redis]'"
        ) from error
    try:
        # No retries of redis-py's: `Jobs` has its own, and the scripts know what may come twice.
        return Redis.from_url(
            url,
            decode_responses=True,
            retry=None,
            socket_timeout=PATIENCE_S,
            socket_connect_timeout=PATIENCE_S,
            health_check_interval=30,
        ), RedisError
    except ValueError as error:
        raise InvalidValue(
            f"{where!r} is no address of a Redis.", hint="Such as redis://127.0.0.1:6379/0"
        ) from error


def _without_password(url: str) -> str:
    """The address as messages may show it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _nothing(job_id: str) -> None:
    """Nobody attends yet."""

"""Several servers on one job store: each job is one server's, and no job is nobody's."""

from __future__ import annotations

import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from tests.isolate.conftest import eventually
from tests.support.jobs import Asked, event, job, request, result
from tests.support.redis_server import RedisServer, redis_server

from jumar.contracts.errors import InvalidValue, NotPermitted, NotReady, OutputFailed
from jumar.engine.jobs import Job, Jobs, RedisStore, SqliteStore, open_store

LEASE_S = 0.6
SAYS_S = 60.0

ANOTHER = """
import sys, time
from jumar.contracts.errors import NotPermitted
from jumar.contracts.requests import text2audio
from jumar.engine.jobs import Job, RedisStore

def lost(job_id):
    try:
        store.put(ran)
    except NotPermitted as error:
        if job_id == ran.id:
            print("refused", error, flush=True)

store = RedisStore(sys.argv[1], lease_s=float(sys.argv[2]))
asked = text2audio("toy", "hello", backend="cpu")
ran, waits = (Job(request=asked, backend="cpu", state=state) for state in ("running", "queued"))
store.put(ran)
store.put(waits)
store.attend(lambda job_id: print("cancel", job_id, flush=True), lost)
print(ran.id, waits.id, flush=True)
time.sleep(600)
"""


class Other:
    """Another server's process, with a job that runs and one that waits."""

    def __init__(self, url: str) -> None:
        line = [sys.executable, "-c", ANOTHER, url, str(LEASE_S)]
        self.process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        self.ran, self.waits = self.says().split()

    def says(self) -> str:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], SAYS_S)
        assert ready, f"it has said nothing for {SAYS_S:g} s"
        return self.process.stdout.readline()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def store(redis: RedisServer) -> Iterator[RedisStore]:
    redis.clear()
    one = RedisStore(redis.url, lease_s=LEASE_S)
    yield one
    one.close()


@pytest.fixture
def other(redis: RedisServer, store: RedisStore) -> Iterator[Other]:
    one = Other(redis.url)
    yield one
    one.close()


@pytest.fixture
def taken(store: RedisStore) -> Callable[[], list[Job]]:
    """All that this server has taken over so far."""
    found: list[Job] = []

    def look() -> list[Job]:
        found.extend(store.orphans())
        return found

    return look


def test_the_jobs_of_a_server_that_lives_are_its_own(
    store: RedisStore, other: Other, taken: Callable[[], list[Job]]
) -> None:
    assert {one.id for one in store.newest()} == {other.ran, other.waits}
    assert taken() == []
    mine = job(id=other.waits)
    with pytest.raises(NotPermitted):
        store.put(mine)


def test_a_job_is_stopped_through_another_server(
    store: RedisStore, other: Other, asked: Asked
) -> None:
    jobs = Jobs(store, visit=asked.visit, ask=asked.ask)
    assert jobs.cancel(other.ran).cancel_requested
    assert other.says().split() == ["cancel", other.ran]
    jobs.close()


def test_nobody_is_told_that_a_job_stops_where_nobody_heard(
    store: RedisStore, other: Other
) -> None:
    other.process.kill()
    other.process.wait()
    assert eventually(lambda: _refused(store, other.ran))


def _refused(store: RedisStore, job_id: str) -> bool:
    try:
        store.cancel(job_id)
    except NotReady:
        return True
    return False


def test_the_jobs_of_a_server_that_was_killed_are_taken_over(
    store: RedisStore, other: Other, asked: Asked
) -> None:
    jobs = Jobs(store, visit=asked.visit, ask=asked.ask)
    other.process.kill()

    def over() -> bool:
        jobs.recover()
        return store.get(other.ran).over

    assert eventually(over)
    lost = store.get(other.ran)
    assert lost.error_detail is not None
    assert (lost.state, lost.error_detail.code) == ("failed", "run_failed")
    assert [run.known["job_id"] for run in asked.runs] == [other.waits]
    asked.begin()
    asked.futures[0].set_result(result())
    assert eventually(lambda: store.get(other.waits).state == "succeeded")
    jobs.close()


def test_a_server_that_was_silent_and_comes_back_drops_what_was_taken(
    store: RedisStore, other: Other, taken: Callable[[], list[Job]]
) -> None:
    other.process.send_signal(signal.SIGSTOP)
    assert eventually(lambda: len(taken()) == 2)
    other.process.send_signal(signal.SIGCONT)
    assert other.says().startswith(f"refused Another server has taken {other.ran} over")


def test_a_job_that_is_lost_is_stopped_and_not_written_down(
    store: RedisStore, asked: Asked
) -> None:
    jobs = Jobs(store, visit=asked.visit, ask=asked.ask)
    made = jobs.submit(request())
    asked.begin()
    jobs._lose(made.id)
    assert asked.cancels[0].is_set()
    asked.futures[0].set_result(result())
    assert jobs.live == {"queued": 0, "running": 0}
    jobs.close()
    assert store.get(made.id).state == "running", "what becomes of it, the other one writes"


def test_however_many_look_each_job_goes_to_one(redis: RedisServer) -> None:
    redis.clear()
    gone = RedisStore(redis.url)
    waiting = [job() for _ in range(200)]
    for one in waiting:
        gone.put(one)
    gone.close()
    several = [RedisStore(redis.url) for _ in range(6)]
    with ThreadPoolExecutor(len(several)) as pool:
        found = list(pool.map(lambda each: each.orphans(), several))
    assert sorted(one.id for each in found for one in each) == sorted(one.id for one in waiting)
    for each in several:
        each.close()


def test_what_is_sent_again_for_want_of_an_answer_is_kept_once(store: RedisStore) -> None:
    twice = event(done=1)
    for told in (twice, twice, event(done=2)):
        store.tell("job_a", told)
    assert [one.data["done"] for _, one in store.events("job_a")] == [1, 2]


def test_redis_may_go_and_come_back(tmp_path: Path) -> None:
    with redis_server(tmp_path) as server:
        store = RedisStore(server.url, lease_s=LEASE_S)
        kept = job()
        store.put(kept)
        heard: list[str] = []
        store.watch(heard.append)
        server.stop()
        with pytest.raises(OutputFailed, match="redis://127.0.0.1"):
            store.get(kept.id)
        server.start()
        numbers = count()
        assert eventually(lambda: _told(store, kept.id, next(numbers), heard))
        assert store.get(kept.id) == kept
        assert store.orphans() == [], "nobody else has come meanwhile"
        store.close()


def _told(store: RedisStore, job_id: str, number: int, heard: list[str]) -> bool:
    """Whether changes are heard of again; each event is another, as one told twice is none."""
    store.tell(job_id, event(done=number))
    return bool(heard)


@pytest.mark.parametrize("address", ["localhost:6379", "redis//a", "http://a", "sqlite:///a"])
def test_an_address_of_something_else_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(InvalidValue, match="redis://HOST:PORT/DB"):
        open_store(address, tmp_path / "jobs.sqlite")


def test_without_an_address_it_is_a_file(tmp_path: Path) -> None:
    store = open_store(None, tmp_path / "jobs.sqlite")
    assert isinstance(store, SqliteStore)
    store.close()


@pytest.mark.parametrize("more", ["", "?password=sesame"])
def test_a_password_is_told_to_nobody(more: str, nowhere: str) -> None:
    pytest.importorskip("redis")
    with pytest.raises(OutputFailed) as caught:
        open_store(f"redis://me:sesame@{nowhere}/0{more}", Path("unused"))
    told: Any = caught.value.detail()
    assert nowhere in told["message"]
    assert "sesame" not in f"{told} {caught.value.__cause__!r}"


@pytest.fixture
def nowhere() -> str:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"

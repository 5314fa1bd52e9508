"""Jobs are kept, told of, cancelled and forgotten; a restart loses none. In SQLite and in Redis."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.isolate.conftest import eventually
from tests.support.jobs import Asked, event, job, request, result
from tests.support.redis_server import RedisServer

from jumar.contracts.errors import NotFound, NotPermitted, NotReady, OutputFailed, Overloaded
from jumar.engine.jobs import Job, Jobs, JobStore, RedisStore, SqliteStore
from jumar.engine.jobs.base import EVENTS


@pytest.fixture(params=["sqlite", "redis"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], JobStore]]:
    """Opens a store, and the next time the same jobs again."""
    made: list[JobStore] = []
    if request.param == "redis":
        redis: RedisServer = request.getfixturevalue("redis")
        redis.clear()

    def open_() -> JobStore:
        sqlite = request.param == "sqlite"
        made.append(SqliteStore(tmp_path / "jobs.sqlite") if sqlite else RedisStore(redis.url))
        return made[-1]

    yield open_
    for store in made:
        store.close()


@pytest.fixture
def store(opened: Callable[[], JobStore]) -> JobStore:
    return opened()


@pytest.fixture
def jobs(store: JobStore, asked: Asked) -> Iterator[Jobs]:
    made = Jobs(store, visit=asked.visit, ask=asked.ask)
    yield made
    made.close()


# ---- the store -----------------------------------------------------------------------------------


def test_a_job_comes_back_as_it_was(store: JobStore) -> None:
    kept = job(result=result(), progress={"done": 1}, trace_id="t")
    store.put(kept)
    assert store.get(kept.id) == kept
    kept.state = "succeeded"
    store.put(kept)
    assert store.get(kept.id) == kept
    store.delete(kept.id)
    with pytest.raises(NotFound):
        store.get(kept.id)


def test_the_newest_come_first_and_states_narrow_the_list(store: JobStore) -> None:
    made = [job(enqueued_at_ms=at, state=state) for at, state in ((1, "queued"), (2, "failed"))]
    for one in made:
        store.put(one)
    assert [one.id for one in store.newest()] == [made[1].id, made[0].id]
    assert [one.id for one in store.newest(state="queued")] == [made[0].id]
    assert len(store.newest(limit=1)) == 1


def test_events_are_numbered_and_only_the_newest_are_kept(store: JobStore) -> None:
    for number in range(EVENTS + 5):
        store.tell("job_a", event(done=number))
    store.tell("job_b", event(done=-1))
    kept = store.events("job_a")
    assert [number for number, _ in kept] == list(range(6, EVENTS + 6))
    assert kept[-1][1].data == {"done": EVENTS + 4}
    assert [number for number, _ in store.events("job_a", after=EVENTS + 3)] == [
        EVENTS + 4,
        EVENTS + 5,
    ]


def test_what_is_over_for_long_is_forgotten_with_its_events(store: JobStore) -> None:
    old, new, running = job(finished_at_ms=10), job(finished_at_ms=99), job()
    for one in (old, new, running):
        store.put(one)
        store.tell(one.id, event())
    assert store.sweep(50) == 1
    assert {one.id for one in store.newest()} == {new.id, running.id}
    assert store.events(old.id) == []
    assert len(store.events(new.id)) == 1


def test_who_watches_hears_every_change_until_he_stops(store: JobStore) -> None:
    heard: list[str] = []
    later: list[str] = []
    stop = store.watch(heard.append)
    one = job()
    store.put(one)
    store.tell(one.id, event())
    assert eventually(lambda: len(heard) == 2)
    stop()
    store.watch(later.append)
    store.delete(one.id)
    assert eventually(lambda: later == [one.id])
    assert heard == [one.id, one.id]


def test_two_servers_never_share_a_file(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "jobs.sqlite")
    with pytest.raises(NotPermitted, match="Another server"):
        SqliteStore(tmp_path / "jobs.sqlite")
    first.close()


def test_a_file_that_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("This is no database, and long enough to be looked at. " * 9)
    with pytest.raises(OutputFailed, match="no SQLite file"):
        SqliteStore(tmp_path / "other")


# ---- jobs on their way ---------------------------------------------------------------------------


def test_a_job_waits_runs_and_has_its_result(jobs: Jobs, asked: Asked) -> None:
    made = jobs.submit(request(), trace_id="req_1")
    assert (made.state, jobs.live) == ("queued", {"queued": 1, "running": 0})
    asked.begin()
    assert jobs.get(made.id).state == "running"
    asked.futures[0].set_result(result())
    assert eventually(lambda: jobs.store.get(made.id).state == "succeeded")
    done = jobs.get(made.id)
    assert done.result == result()
    assert asked.runs[0].known == {"job_id": made.id, "trace_id": "req_1"}, "for the report"
    assert (done.started_at_ms or 0) <= (done.finished_at_ms or 0)
    assert jobs.live == {"queued": 0, "running": 0}


def test_a_failed_run_is_a_failed_job_that_says_why(jobs: Jobs, asked: Asked) -> None:
    made = jobs.submit(request())
    asked.begin()
    asked.futures[0].set_result(result("It failed."))
    assert eventually(lambda: jobs.store.get(made.id).over)
    done = jobs.get(made.id)
    assert (done.state, done.error) == ("failed", "It failed.")


def test_what_is_refused_at_once_leaves_no_job(jobs: Jobs, asked: Asked) -> None:
    asked.refusing = Overloaded("full")
    with pytest.raises(Overloaded):
        jobs.submit(request())
    assert jobs.store.newest() == []


def test_a_job_that_waits_is_cancelled_at_once(jobs: Jobs, asked: Asked) -> None:
    made = jobs.submit(request())
    jobs.cancel(made.id)
    assert eventually(lambda: jobs.store.get(made.id).state == "cancelled")
    assert asked.futures[0].cancelled()


def test_a_job_that_runs_is_told_to_stop(jobs: Jobs, asked: Asked) -> None:
    made = jobs.submit(request())
    asked.begin()
    assert jobs.cancel(made.id).cancel_requested
    assert asked.cancels[0].is_set()
    assert jobs.get(made.id).state == "running", "until it has stopped"


def test_cancelling_what_is_over_changes_nothing_and_deleting_it_forgets_it(
    jobs: Jobs, asked: Asked
) -> None:
    made = jobs.submit(request())
    asked.begin()
    asked.futures[0].set_result(result())
    assert eventually(lambda: jobs.store.get(made.id).over)
    assert jobs.cancel(made.id).state == "succeeded"
    assert jobs.delete(made.id).state == "succeeded"
    with pytest.raises(NotFound):
        jobs.get(made.id)


def test_steps_come_to_the_store_now_and_then_other_events_always(jobs: Jobs, asked: Asked) -> None:
    made = jobs.submit(request())
    asked.begin()
    for done in range(1000):
        asked.listeners[0](event(done=done, total=1000))
    asked.listeners[0](event("stage_finished"))
    asked.futures[0].set_result(result())
    assert eventually(lambda: jobs.store.get(made.id).over)
    names = [told.event for _, told in jobs.store.events(made.id)]
    assert names[0] == "stage_started"
    assert names[-1] == "stage_finished"
    assert 1 <= names.count("step") < 100


def test_a_store_that_fails_never_reaches_the_run(
    jobs: Jobs, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer's worker thread died of it, and every later job waited for ever."""
    made = jobs.submit(request())
    put, failures = jobs.store.put, iter([OutputFailed("disk"), OutputFailed("disk")])

    def failing(job: Job) -> None:
        if (error := next(failures, None)) is not None:
            raise error
        put(job)

    monkeypatch.setattr(jobs.store, "put", failing)
    asked.begin()
    asked.futures[0].set_result(result())
    assert eventually(lambda: jobs.store.get(made.id).state == "succeeded")


def test_after_a_restart_what_ran_has_failed_and_what_waited_is_asked_again(
    opened: Callable[[], JobStore], asked: Asked
) -> None:
    store = opened()
    before = Jobs(store, visit=asked.visit, ask=asked.ask)
    ran, waited = before.submit(request("a")), before.submit(request("b"))
    asked.begin(0)
    assert eventually(lambda: store.events(ran.id))
    store.close()  # as the end of the process would

    again = Asked()
    after = Jobs(opened(), visit=again.visit, ask=again.ask)
    after.recover()
    lost = after.get(ran.id)
    assert lost.error_detail is not None
    assert (lost.state, lost.error_detail.code) == ("failed", "run_failed")
    assert after.get(waited.id).state == "queued"
    after.recover()
    assert len(again.futures) == 1, "it is asked again once"
    again.begin()
    again.futures[0].set_result(result())
    assert eventually(lambda: after.store.get(waited.id).state == "succeeded")
    after.close()


def test_jobs_that_wait_when_a_server_stops_wait_for_the_next(jobs: Jobs, asked: Asked) -> None:
    made = jobs.submit(request())
    jobs.stop()
    asked.futures[0].set_exception(NotReady("The server is stopping."))
    jobs.close()
    assert jobs.store.get(made.id).state == "queued"


def test_a_store_in_another_format_is_told_and_not_lost(tmp_path: Path) -> None:
    file = tmp_path / "jobs.sqlite"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE jobs (something)")
    other.close()
    with pytest.raises(OutputFailed):
        SqliteStore(file)

"""SQLite and Redis, told the same, say the same."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.jobs import event, job
from tests.support.redis_server import RedisServer

from jumar.contracts.errors import NotFound
from jumar.engine.jobs import Job, JobStore, RedisStore, SqliteStore

NAMES = [f"job_{letter}" for letter in "abc"]
STATES = ["queued", "running", "succeeded", "failed", "cancelled"]

names, moments = st.sampled_from(NAMES), st.integers(1, 4)
puts = st.tuples(st.just("put"), names, st.sampled_from(STATES), moments, st.none() | moments)
steps = st.one_of(
    puts,
    st.tuples(st.just("tell"), names),
    st.tuples(st.just("delete"), names),
    st.tuples(st.just("sweep"), moments),
)


def apply(store: JobStore, asked: dict[str, int], number: int, step: Any) -> int | None:
    """One step; how many a sweep found. When a job was asked for never changes while it is kept,
    and no two events are alike.
    """
    what, *rest = step
    if what == "put":
        name, state, at, ended = rest
        store.put(job(id=name, state=state, enqueued_at_ms=asked.setdefault(name, at),
                      finished_at_ms=ended))  # fmt: skip
    elif what == "tell":
        store.tell(rest[0], event(done=number))
    elif what == "delete":
        store.delete(rest[0])
        asked.pop(rest[0], None)
    else:
        return store.sweep(rest[0])
    return None


def seen(store: JobStore) -> Any:
    """All that a store can be asked."""

    def got(name: str) -> Job | None:
        try:
            return store.get(name)
        except NotFound:
            return None

    return (
        sorted((one.enqueued_at_ms, one.id) for one in store.newest()),
        [one.enqueued_at_ms for one in store.newest()],
        {state: sorted(one.id for one in store.newest(state=state)) for state in STATES},
        [got(name) for name in NAMES],
        [store.events(name, after) for name in NAMES for after in (0, 1)],
    )


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=15))
def test_two_stores_that_are_told_the_same_say_the_same(
    redis: RedisServer, steps: list[Any]
) -> None:
    redis.clear()
    told = []
    for store in (SqliteStore(":memory:"), RedisStore(redis.url)):
        asked: dict[str, int] = {}
        found = [apply(store, asked, number, step) for number, step in enumerate(steps)]
        told.append((found, seen(store)))
        store.close()
    assert told[0] == told[1]

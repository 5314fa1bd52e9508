"""The queue is bounded, fair, and answers together what goes together."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import (
    Cancelled,
    DeadlineExceeded,
    JumarError,
    NotReady,
    Overloaded,
)
from jumar.engine.queue import Batching, Queue, Work


class Clock:
    """A time that stands until it is moved."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def names(batch: list[Work]) -> list[str]:
    return [work.what for work in batch]


def work(name: str, seconds: float = 1.0, arrived: float = 100.0, **more: object) -> Work:
    return Work(name, seconds, arrived=arrived, **more)  # type: ignore[arg-type]


def test_short_work_goes_first(clock: Clock) -> None:
    queue = Queue(9, clock=clock)
    queue.put(work("long", 60))
    queue.put(work("short", 1))
    assert [names(queue.take()) for _ in range(2)] == [["short"], ["long"]]


def test_long_work_is_overtaken_only_for_as_long_as_it_takes_itself(clock: Clock) -> None:
    queue = Queue(99, clock=clock)
    queue.put(work("long", 10))
    served = []
    for second in range(20):  # a new short one each second, for ever
        clock.now = 100.0 + second
        queue.put(work(f"short {second}", 1, clock.now))
        served += names(queue.take())
    assert served.index("long") <= 10


@given(st.lists(st.tuples(st.floats(0, 50), st.floats(0, 50)), min_size=1, max_size=30))
def test_nobody_is_overtaken_by_who_came_after_he_was_due(jobs: list[tuple[float, float]]) -> None:
    clock = Clock()
    queue = Queue(99, clock=clock)
    works = [work(str(n), seconds, arrived) for n, (arrived, seconds) in enumerate(jobs)]
    for one in works:
        queue.put(one)
    order = [queue.take()[0] for _ in works]
    assert len(set(map(id, order))) == len(works)
    for place, one in enumerate(order):
        assert all(later.arrived + later.seconds >= one.due for later in order[place:])
        assert not any(earlier.arrived > one.due for earlier in order[:place])


def test_a_full_queue_refuses_at_once_and_says_when_to_come_again(clock: Clock) -> None:
    queue = Queue(1, clock=clock)
    queue.put(work("a", 7))
    with pytest.raises(Overloaded) as caught:
        queue.put(work("b"))
    assert caught.value.hint == "Try again in about 7 s."
    assert names(queue.take()) == ["a"]


def test_work_of_equal_keys_is_answered_together_up_to_the_budget(clock: Clock) -> None:
    queue = Queue(99, Batching(most=3, budget=10), clock=clock)
    for name, key, size in (("a", 1, 4), ("b", 2, 1), ("c", 1, 7), ("d", 1, 6), ("e", 1, 1)):
        queue.put(work(name, together=key, size=size))
    assert [names(queue.take()) for _ in range(3)] == [["a", "d"], ["b"], ["c", "e"]]


def test_work_without_a_key_is_answered_alone(clock: Clock) -> None:
    queue = Queue(99, Batching(most=8), clock=clock)
    for name in "ab":
        queue.put(work(name))
    assert names(queue.take()) == ["a"]


def test_a_batch_with_room_waits_for_its_window(clock: Clock) -> None:
    queue = Queue(99, Batching(most=2, window=5.0), clock=clock)
    queue.put(work("a", together=1))
    assert queue.take(timeout=0) == []
    clock.now += 5.0
    assert names(queue.take(timeout=0)) == ["a"]


def test_a_full_batch_does_not_wait(clock: Clock) -> None:
    queue = Queue(99, Batching(most=2, window=5.0), clock=clock)
    for name in "abc":
        queue.put(work(name, together=1))
    assert names(queue.take(timeout=0)) == ["a", "b"]


def test_nobody_misses_his_deadline_for_the_sake_of_company(clock: Clock) -> None:
    queue = Queue(99, Batching(most=9), clock=clock)
    queue.put(work("hurried", 8, together=1, deadline=120.0))
    for name in "abc":
        queue.put(work(name, 8, together=1))
    assert (names(queue.take()), len(queue)) == (["hurried", "a"], 2)


def test_a_bound_counts_from_the_next_batch_on_and_never_widens(clock: Clock) -> None:
    queue = Queue(99, Batching(most=9, budget=4), clock=clock)
    for name in "abcdefgh":
        queue.put(work(name, together=1))
    assert len(queue.take()) == 4
    queue.bound(2)
    queue.bound(3)
    assert len(queue.take()) == 2
    queue.bound(0)
    assert len(queue.take()) == 1


def test_work_whose_time_has_passed_is_refused_and_never_taken(clock: Clock) -> None:
    told: list[JumarError] = []
    queue = Queue(99, clock=clock)
    queue.put(work("late", deadline=101.0, refuse=told.append))
    queue.put(work("good", 9))
    clock.now = 102.0
    assert names(queue.take()) == ["good"]
    assert [type(error) for error in told] == [DeadlineExceeded]
    with pytest.raises(DeadlineExceeded):
        queue.put(work("dead", deadline=101.0))


def test_what_is_cancelled_frees_its_place(clock: Clock) -> None:
    told: list[JumarError] = []
    queue = Queue(1, clock=clock)
    first = work("a", refuse=told.append)
    queue.put(first)
    assert queue.cancel(first)
    queue.put(work("b"))
    assert names(queue.take()) == ["b"]
    assert not queue.cancel(first)
    assert [type(error) for error in told] == [Cancelled]


def test_work_of_a_lost_worker_keeps_its_place_also_in_a_full_queue(clock: Clock) -> None:
    queue = Queue(1, clock=clock)
    queue.put(work("a"))
    taken = queue.take()
    queue.put(work("b", arrived=105.0))
    queue.again(taken)
    assert [names(queue.take()) for _ in range(2)] == [["a"], ["b"]]


def test_closing_refuses_all_and_wakes_who_waits() -> None:
    told: list[JumarError] = []
    queue = Queue(9)
    taken: list[list[Work]] = []
    waiter = threading.Thread(target=lambda: taken.append(queue.take()))
    waiter.start()
    queue.close(NotReady("The goldens failed."))
    waiter.join(5)
    assert taken == [[]]
    with pytest.raises(NotReady, match="goldens"):
        queue.put(work("a"))
    queue.again([work("b", refuse=told.append)])
    assert [str(error) for error in told] == ["The goldens failed."]


def test_many_threads_lose_nothing_and_get_nothing_twice() -> None:
    queue = Queue(10_000, Batching(most=7))
    got: list[list[str]] = [[] for _ in range(4)]

    def serve(mine: list[str]) -> None:
        while batch := queue.take(timeout=2):
            mine += names(batch)

    servers = [threading.Thread(target=serve, args=(mine,)) for mine in got]
    for server in servers:
        server.start()
    for n in range(500):
        queue.put(Work(str(n), together=n % 3))
    queue_closed = threading.Timer(0.5, queue.close)
    queue_closed.start()
    for server in servers:
        server.join(10)
    assert sorted((name for mine in got for name in mine), key=int) == [str(n) for n in range(500)]


# ---- callers that come together ------------------------------------------------------------------


def crowd(clock: Clock, *, first: int, again: int, together: object = "k") -> Queue:
    """`first` works were taken at once, and `again` wait when they are answered; each takes 8 s."""
    queue = Queue(99, Batching(most=9), clock=clock)
    for number in range(first):
        queue.put(Work(number, 8.0, together=together, arrived=clock.now))
    queue.take(timeout=0)
    for number in range(again):
        queue.put(Work(number, 8.0, together=together, arrived=clock.now))
    return queue


def test_a_batch_waits_for_those_who_were_there_before_and_goes_once_all_are(clock: Clock) -> None:
    """The clock stands: nothing but their number lets it go."""
    queue, taken = crowd(clock, first=4, again=2), []
    worker = threading.Thread(target=lambda: taken.extend(queue.take()))
    worker.start()
    for number in range(4):
        assert taken == []
        queue.put(Work(number, 8.0, together="k", arrived=clock.now))
    worker.join(60)
    assert len(taken) == 6


def test_a_batch_of_minutes_waits_for_them_a_moment_only(clock: Clock) -> None:
    queue = crowd(clock, first=4, again=2)
    taken: list[Work] = []
    worker = threading.Thread(target=lambda: taken.extend(queue.take()))
    worker.start()
    while not taken and clock.now < 104.0:  # a quarter of their 16 s
        clock.now += 0.05
        worker.join(0.05)
    worker.join(60)
    assert clock.now < 102.0
    assert len(taken) == 2


def test_who_comes_while_it_waits_in_vain_is_not_waited_for_again(clock: Clock) -> None:
    queue = crowd(clock, first=4, again=2)
    assert queue.take(timeout=0) == []
    assert len(queue.take(timeout=0)) == 2


def test_it_does_not_wait_longer_for_who_stays_away() -> None:
    queue = Queue(99, Batching(most=9))
    for number in range(4):
        queue.put(Work(number, 0.04, together="k"))
    assert len(queue.take()) == 4
    queue.put(Work("back", 0.04, together="k"))
    assert names(queue.take()) == ["back"]


@pytest.mark.parametrize(("first", "together"), [(1, "k"), (4, None)])
def test_a_caller_who_was_alone_never_waits(clock: Clock, first: int, together: object) -> None:
    queue = crowd(clock, first=first, again=1, together=together)
    while len(queue) > 1:
        queue.take(timeout=0)
    assert len(queue.take(timeout=0)) == 1


def test_nobody_waits_for_a_crowd_while_other_work_does(clock: Clock) -> None:
    queue = crowd(clock, first=4, again=1)
    queue.put(Work("other", 8.0, together="else", arrived=clock.now))
    assert names(queue.take(timeout=0)) == [0]


@pytest.mark.parametrize("more", [{"together": "else"}, {"together": "k", "deadline": 101.0}])
def test_who_cannot_join_ends_the_waiting_for_a_crowd(clock: Clock, more: dict[str, Any]) -> None:
    """The clock stands, and not all of the crowd are back."""
    queue, taken = crowd(clock, first=6, again=2), []
    worker = threading.Thread(target=lambda: taken.extend(queue.take()), daemon=True)
    worker.start()
    while not queue._takers:
        time.sleep(0.001)
    queue.put(Work("other", 8.0, arrived=clock.now, **more))
    worker.join(60)
    assert names(taken) == [0, 1]


def test_what_can_wait_is_done_once_while_nothing_comes_and_no_crowd_is_forgotten(
    clock: Clock,
) -> None:
    queue, taken, done = crowd(clock, first=4, again=2), [], threading.Event()
    calls: list[int] = []

    def idle() -> None:
        calls.append(len(queue))
        done.set()

    worker = threading.Thread(target=lambda: taken.extend(queue.take(idle=idle)), daemon=True)
    worker.start()
    assert done.wait(60)
    for number in range(4):
        assert taken == []
        queue.put(Work(number, 8.0, together="k", arrived=clock.now))
    worker.join(60)
    assert (len(taken), calls) == (6, [2])


def test_who_only_joins_wakes_nobody_until_all_are_there(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, taken, looked = crowd(clock, first=4, again=2), [], []
    look = queue._next
    monkeypatch.setattr(queue, "_next", lambda *how: looked.append(len(queue)) or look(*how))
    worker = threading.Thread(target=lambda: taken.extend(queue.take()), daemon=True)
    worker.start()
    for number in range(4):
        while not queue._takers:
            time.sleep(0.001)
        queue.put(Work(number, 8.0, together="k", arrived=clock.now))
    worker.join(60)
    assert (len(taken), looked) == (6, [2, 6])


def test_those_of_like_size_are_together_and_the_first_is_always_among_them(clock: Clock) -> None:
    queue = Queue(99, Batching(most=2), clock=clock)
    for size in (10, 500, 400, 12):
        queue.put(Work(size, together="k", size=size, arrived=clock.now))
    assert [names(queue.take(timeout=0)) for _ in range(2)] == [[10, 12], [500, 400]]

"""A worker answers calls, keeps its state, and raises as data."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.isolate import misbehaving
from tests.isolate.conftest import PATIENT, eventually

from jumar.contracts.errors import (
    Cancelled,
    DeadlineExceeded,
    InvalidInput,
    InvalidValue,
    RunFailed,
)
from jumar.isolate import Child, Died, Hung, Raised, Returned, Zygote, progress, tell

PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def test_a_thousand_calls_are_answered_in_order_by_one_process(zygote: Zygote) -> None:
    with zygote.spawn(misbehaving.counting) as child:
        answers = [child.call(None, deadline=PATIENT).result() for _ in range(1000)]
    assert answers == list(range(1, 1001))


@settings(
    deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(value=PLAIN)
def test_any_plain_value_comes_back_as_it_was(child: Child, value: object) -> None:
    assert child.call(("echo", value), deadline=PATIENT) == Returned(value)


def test_a_hundred_megabytes_come_back_whole(child: Child) -> None:
    assert child.call(("zeros", 100 << 20), deadline=PATIENT).result() == bytes(100 << 20)


def test_arrays_travel_beside_the_pickle_and_can_be_written_to(child: Child) -> None:
    numpy = pytest.importorskip("numpy")
    sent = numpy.arange(300_000, dtype="float32").reshape(3, -1)
    got = child.call(("echo", {"a": sent, "b": [sent[0], 1]}), deadline=PATIENT).result()
    assert (got["a"] == sent).all() and (got["b"][0] == sent[0]).all()
    got["a"][0, 0] = 5


def test_an_exception_comes_as_data_and_the_child_goes_on(child: Child) -> None:
    outcome = child.call(("raise_plain",), deadline=PATIENT)
    assert isinstance(outcome, Raised)
    failure = outcome.failure
    assert (failure.type, failure.message, failure.code) == ("ValueError", "no such voice", None)
    assert failure.causes == (("KeyError", "'fenrir'"),)
    assert "in raise_plain" in failure.traceback
    with pytest.raises(RunFailed, match="ValueError: no such voice") as raised:
        outcome.result()
    assert raised.value.cause == "ValueError: no such voice <- KeyError: 'fenrir'"
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_a_jumar_error_arrives_with_its_class_hint_param_and_cause(child: Child) -> None:
    with pytest.raises(InvalidValue) as raised:
        child.call(("raise_jumar_error",), deadline=PATIENT).result()
    error = raised.value
    assert (error.message, error.hint, error.param) == (
        "steps must be at most 50.",
        "Use 50.",
        "steps",
    )
    assert error.cause == "OSError: disk full"


def test_an_exception_that_cannot_be_pickled_or_shown_is_named(child: Child) -> None:
    outcome = child.call(("raise_awkward",), deadline=PATIENT)
    assert isinstance(outcome, Raised)
    assert outcome.failure.type == "tests.isolate.misbehaving.Awkward"
    assert outcome.failure.message == "<its __str__ raises RuntimeError>"


def test_a_result_that_cannot_be_sent_is_an_error_with_a_hint(child: Child) -> None:
    outcome = child.call(("unpicklable",), deadline=PATIENT)
    assert isinstance(outcome, Raised) and outcome.failure.code == "run_failed"
    assert outcome.failure.message.startswith("The result (lock) cannot be sent: ")
    assert outcome.failure.hint
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_a_result_that_cannot_be_read_here_is_an_error(child: Child) -> None:
    outcome = child.call(("only_there",), deadline=PATIENT)
    assert isinstance(outcome, Raised)
    assert "cannot be read here: this is only there in the child" in outcome.failure.message
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_a_payload_that_cannot_be_sent_leaves_the_child_alone(child: Child) -> None:
    with pytest.raises(InvalidInput, match=r"payload \(lock\)"):
        child.call(threading.Lock())
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_a_deadline_that_has_passed_leaves_the_child_alone(child: Child) -> None:
    with pytest.raises(DeadlineExceeded):
        child.call(("echo", 1), deadline=-0.5)
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_memory_that_runs_out_in_python_is_an_exception(child: Child) -> None:
    outcome = child.call(("hog_memory",), deadline=PATIENT)
    assert isinstance(outcome, Raised) and outcome.failure.type == "MemoryError"


def test_a_worker_that_cannot_be_made_gives_its_error_to_every_call(zygote: Zygote) -> None:
    child = zygote.spawn(misbehaving.refusing, "no such model")
    for outcome in (child.ready(deadline=PATIENT), child.call(1, deadline=PATIENT)):
        with pytest.raises(InvalidValue, match="no such model"):
            outcome.result()
    assert not child.alive


def test_a_target_must_return_a_function(zygote: Zygote) -> None:
    with pytest.raises(RunFailed, match="returned int, not a function"):
        zygote.spawn(misbehaving.no_worker).ready(deadline=PATIENT).result()


def test_progress_reaches_the_caller(child: Child) -> None:
    seen: list[tuple[int, int | None]] = []
    child.call(("progress_for", 0.2), deadline=PATIENT, on_progress=lambda *step: seen.append(step))
    assert seen and set(seen) == {(1, 2)}


def test_what_the_progress_callback_raises_ends_the_child(child: Child) -> None:
    def enough(*_step: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        child.call(("progress_for", 1000.0), deadline=PATIENT, on_progress=enough)
    assert not child.alive


def test_what_is_told_reaches_the_caller_in_order_before_the_answer(child: Child) -> None:
    told: list[object] = []
    values = [{"event": "step", "done": 1}, "two", None]
    outcome = child.call(("tell_all", values), deadline=PATIENT, on_told=told.append)
    assert (outcome, told) == (Returned("done"), values)


def test_what_need_not_be_told_at_once_comes_in_order_before_the_answer(child: Child) -> None:
    told: list[object] = []
    outcome = child.call(("tell_all_with_the_answer", [1, 2]), on_told=told.append)
    assert (outcome, told) == (Returned("done"), [1, 2])


def test_telling_is_a_sign_of_progress_and_silence_is_none(child: Child) -> None:
    assert child.call(("tell_for", 3.0), heartbeat=2) == Returned("done")
    assert isinstance(child.call(("loop_in_python",), heartbeat=2), Hung)


def test_what_cannot_be_told_is_the_workers_own_error(child: Child) -> None:
    outcome = child.call(("tell_a_lock",), deadline=PATIENT)
    assert isinstance(outcome, Raised) and "pickle" in outcome.failure.message


def test_telling_is_where_a_cancel_is_noticed(child: Child) -> None:
    stop = child.cancel
    with pytest.raises(Cancelled):
        child.call(("tell_for", 1000.0), deadline=PATIENT, on_told=lambda _: stop()).result()


def test_progress_outside_a_child_does_nothing() -> None:
    progress(1, 2)
    tell("nobody")


def test_a_cancelled_call_ends_at_its_next_progress_and_the_child_goes_on(
    child: Child, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            child.call, ("progress_until_cancelled", str(started)), deadline=PATIENT
        )
        assert eventually(started.exists)
        child.cancel()
        with pytest.raises(Cancelled):
            running.result().result()
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_a_call_whose_event_is_set_ends_at_its_next_progress_and_the_child_goes_on(
    child: Child, tmp_path: Path
) -> None:
    stop, started = threading.Event(), tmp_path / "started"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            child.call,
            ("progress_until_cancelled", str(started)),
            deadline=PATIENT,
            stop=stop,
            patience=PATIENT,
        )
        assert eventually(started.exists)
        stop.set()
        with pytest.raises(Cancelled):
            running.result().result()
    assert child.call(("echo", 1), deadline=PATIENT) == Returned(1)


def test_a_worker_that_does_not_stop_when_its_event_is_set_is_ended(child: Child) -> None:
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    outcome = child.call(("loop_in_python",), deadline=PATIENT, stop=stop, patience=0.3)
    assert isinstance(outcome, Died) and not child.alive


def test_a_child_that_was_killed_is_not_alive_before_anybody_calls_it(child: Child) -> None:
    assert child.alive
    os.kill(child.pid, signal.SIGKILL)
    assert eventually(lambda: not child.alive)


def test_a_cancel_that_comes_too_late_stops_no_later_call(child: Child) -> None:
    child.call(("echo", 1), deadline=PATIENT)
    child.cancel()
    assert child.call(("progress_for", 0.2), deadline=PATIENT) == Returned("done")


def test_children_of_several_threads_answer_at_once(zygote: Zygote) -> None:
    def one(number: int) -> set[object]:
        with zygote.spawn(misbehaving.obeying) as child:
            return {child.call(("echo", number), deadline=PATIENT).result() for _ in range(20)}

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(one, range(12))) == [{number} for number in range(12)]


def test_threads_that_share_a_child_take_turns(zygote: Zygote) -> None:
    with zygote.spawn(misbehaving.counting) as child, ThreadPoolExecutor(4) as pool:
        counts = pool.map(lambda _: child.call(None, deadline=PATIENT).result(), range(100))
        assert sorted(counts) == list(range(1, 101))


def test_calls_can_be_awaited(zygote: Zygote) -> None:
    async def both() -> list[object]:
        with zygote.spawn(misbehaving.obeying) as one, zygote.spawn(misbehaving.obeying) as two:
            return await asyncio.gather(
                *(
                    asyncio.to_thread(child.call, ("echo", n), deadline=PATIENT)
                    for n, child in enumerate((one, two))
                )
            )

    assert asyncio.run(both()) == [Returned(0), Returned(1)]


def test_a_call_after_close_says_so(child: Child) -> None:
    child.close()
    child.close()
    outcome = child.call(("echo", 1))
    assert isinstance(outcome, Died) and outcome.reason == "It was closed."


def test_closing_ends_a_call_of_another_thread(child: Child, tmp_path: Path) -> None:
    started = tmp_path / "started"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(child.call, ("progress_until_cancelled", str(started)))
        assert eventually(started.exists)
        child.close()
        outcome = running.result()
    assert isinstance(outcome, Died) and outcome.reason == "It was closed."

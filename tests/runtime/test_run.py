"""Stages are timed, told and stopped; the report keeps what matters."""

from __future__ import annotations

import threading
import time

import pytest

from jumar import catalog
from jumar.contracts import StageEventRecord, requests
from jumar.contracts.errors import Cancelled, DeadlineExceeded
from jumar.runtime.run import MAX_EVENTS, Run

REQUEST = catalog.resolve(requests.text2audio("hibari", "Hello.", seed=1))


def test_a_stage_that_runs_twice_is_timed_together() -> None:
    run = Run(REQUEST, {})
    for _ in range(2):
        with run.stage("speak"):
            time.sleep(0.002)
    assert run.timings["speak_ms"] >= 4
    assert [event.event for event in run.events] == ["stage_started", "stage_finished"] * 2


def test_a_failure_is_told_in_the_stage_where_it_happened_and_in_those_around_it() -> None:
    run = Run(REQUEST, {})
    with pytest.raises(ValueError, match="bad"), run.stage("outer"), run.stage("inner"):
        raise ValueError("bad")
    failed = [event.stage for event in run.events if event.event == "stage_failed"]
    assert failed == ["inner", "outer"]
    assert {"inner_ms", "outer_ms"} <= set(run.timings)


def test_a_caller_who_stops_is_heard_at_the_next_step_and_at_the_next_stage() -> None:
    stop = threading.Event()
    run = Run(REQUEST, {}, cancel=stop)
    with pytest.raises(Cancelled, match="during speak"), run.stage("speak"):
        run.step(1, 2)
        stop.set()
        run.step(2, 2)
    with pytest.raises(Cancelled), run.stage("export"):
        pytest.fail("a stage began after the caller had stopped")


def test_a_passed_deadline_ends_the_run() -> None:
    run = Run(REQUEST, {}, deadline=time.monotonic() - 1)
    with pytest.raises(DeadlineExceeded), run.stage("speak"):
        pytest.fail("a stage began after the deadline")


def test_listeners_hear_everything_and_the_report_keeps_a_bounded_part() -> None:
    heard: list[StageEventRecord] = []
    run = Run(REQUEST, {}, listener=heard.append)
    with run.stage("fetch"):
        for done in range(50):
            run.step(done, 50, kept=False, unit="bytes")
        for done in range(2 * MAX_EVENTS):
            run.step(done)
    assert len(heard) == 2 + 50 + 2 * MAX_EVENTS
    assert len(run.events) == MAX_EVENTS
    assert not any(event.data.get("unit") == "bytes" for event in run.events)


def test_a_warning_is_told_once() -> None:
    run = Run(REQUEST, {})
    for _ in range(3):
        run.warn("The sound was resampled.")
    assert run.warnings == ["The sound was resampled."]


def test_memory_is_tidied_after_each_stage_that_came_to_its_end() -> None:
    run, tidied = Run(REQUEST, {}), []
    run.after_stage = lambda: tidied.append(len(tidied))
    with run.stage("load"), run.stage("inner"):
        pass
    with pytest.raises(ValueError, match="bad"), run.stage("speak"):
        raise ValueError("bad")
    assert tidied == [0, 1]

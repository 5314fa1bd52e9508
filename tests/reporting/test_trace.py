"""The trace, as Perfetto reads it."""

from __future__ import annotations

import json
from typing import Any

from tests.reporting.samples import events, failed_report, report

from jumar.contracts.results import RunReport
from jumar.reporting import as_trace


def complete(run: RunReport) -> list[dict[str, Any]]:
    trace = json.loads(json.dumps(as_trace(run)))
    return [event for event in trace["traceEvents"] if event["ph"] == "X"]


def test_each_stage_has_its_begin_and_length_in_microseconds() -> None:
    times = {e["name"]: (e["ts"], e["dur"]) for e in complete(report())}
    assert times["load"] == (13_000, 810_000)
    assert times["denoise"] == (870_000, 1_370_000)


def test_a_stage_inside_another_stands_on_another_track() -> None:
    run = report(timings={}, stream_events=events(("hear", 0, 100), ("vad", 10, 20)))
    assert {e["name"]: e["tid"] for e in complete(run)} == {"hear": 0, "vad": 1}


def test_a_failed_stage_has_a_category_of_its_own() -> None:
    assert {e["name"]: e["cat"] for e in complete(failed_report())}["denoise"] == "failed"


def test_steps_are_points_in_time() -> None:
    points = [e for e in as_trace(report())["traceEvents"] if e["ph"] == "i"]
    assert len(points) == 20
    assert points[-1]["args"] == {"done": 20, "total": 20}


def test_the_run_is_named() -> None:
    trace = as_trace(report())
    assert trace["otherData"]["device"] == "cpu"
    assert "sdxl-digits" in trace["traceEvents"][0]["args"]["name"]


def test_a_report_without_stages_is_a_trace_without_stages() -> None:
    assert complete(report(timings={}, stream_events=[])) == []

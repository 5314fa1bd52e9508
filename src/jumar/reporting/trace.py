"""A run as a trace that Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
("Trace Event Format"): complete events `X` with `ts` and `dur` in microseconds.
"""

from __future__ import annotations

from typing import Any

from jumar.contracts.results import RunReport
from jumar.reporting.timeline import Span, spans

_PROCESS = 1
_POINTS = 100
"""Track of the events that have no length."""


def as_trace(report: RunReport) -> dict[str, Any]:
    """The trace as a JSON object. Stages inside stages stand on tracks of their own."""
    stages = spans(report)
    tracks = {span.depth: "stages" if span.depth == 0 else "inner stages" for span in stages}
    events = [_name("process_name", 0, f"{report.model} {report.task} {report.run_id}")]
    events += [_name("thread_name", track, name) for track, name in sorted(tracks.items())]
    events += [_complete(span) for span in stages]
    events += _points(report)
    return {
        "displayTimeUnit": "ms",
        "traceEvents": events,
        "otherData": {
            "run_id": report.run_id,
            "model": report.model,
            "task": report.task,
            "device": report.where,
            **report.fingerprint,
        },
    }


def _complete(span: Span) -> dict[str, Any]:
    event: dict[str, Any] = {
        "ph": "X",
        "name": span.stage,
        "cat": "failed" if span.failed else "stage",
        "pid": _PROCESS,
        "tid": span.depth,
        "ts": round(span.begin * 1000),
        "dur": round(span.ms * 1000),
    }
    if span.steps is not None:
        event["args"] = {"steps": span.steps}
    return event


def _points(report: RunReport) -> list[dict[str, Any]]:
    """Steps, warnings and whatever else happened at one moment."""
    if not report.stream_events:
        return []
    zero = report.stream_events[0].timestamp_ms
    points = [
        {
            "ph": "i",
            "s": "t",
            "name": event.event,
            "cat": event.stage,
            "pid": _PROCESS,
            "tid": _POINTS,
            "ts": (event.timestamp_ms - zero) * 1000,
            "args": event.data,
        }
        for event in report.stream_events
        if not event.event.startswith("stage_")
    ]
    return [_name("thread_name", _POINTS, "events"), *points] if points else []


def _name(what: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": track, "args": {"name": name}}

"""When each stage of a run began and how long it took: what table, page and trace draw."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.contracts.results import BackendTimelineEntry, RunReport, StageEventRecord

_UNIT = "_ms"
_TOTAL = "total_ms"
_ENDS = {"stage_finished": False, "stage_failed": True}


@dataclass(frozen=True, slots=True)
class Span:
    """One stage; `begin` and `ms` in milliseconds since the first stage began.

    `depth` counts the stages around it; `steps` is how many steps it told of.
    """

    stage: str
    begin: float
    ms: float
    depth: int = 0
    failed: bool = False
    steps: int | None = None

    @property
    def end(self) -> float:
        """When it ended."""
        return self.begin + self.ms


def spans(report: RunReport) -> list[Span]:
    """The stages in the order in which they began.

    The events say when; a stage that has none (an older report, or more events than are kept)
    stands behind the others, in the order of the timings.
    """
    told = list(_told(report.stream_events))
    known = {span.stage for span in told}
    end = max((span.end for span in told), default=0.0)
    for key, ms in report.timings.items():
        stage = key.removesuffix(_UNIT)
        if key == _TOTAL or stage in known:
            continue
        told.append(Span(stage, end, ms))
        end += ms
    return sorted(told, key=lambda span: (span.begin, span.depth))


def total_ms(report: RunReport) -> float:
    """How long the run took: as measured, else to the end of the last stage."""
    return report.timings.get(_TOTAL) or max((span.end for span in spans(report)), default=0.0)


def fell_back(entry: BackendTimelineEntry) -> bool:
    """Whether a rung was really tried and failed before the one that was taken.

    A rung that does not exist here ("no override registered", "not tried: …", "skipped: …") is
    no failure.
    """
    for attempt in entry.attempts:
        if attempt.selected:
            return False
        if was_tried(attempt.ok, attempt.reason):
            return True
    return False


def was_tried(ok: bool, reason: str | None) -> bool:
    """Whether an attempt that was not selected was a real one."""
    return not ok and not (reason or "").startswith(("no override", "not tried", "skipped"))


def _told(events: list[StageEventRecord]) -> Iterator[Span]:
    open_stages: list[StageEventRecord] = []
    steps: dict[str, int] = {}
    summed: dict[str, float] = {}
    last_end: dict[int, float] = {}
    zero = events[0].timestamp_ms if events else 0
    for event in events:
        if event.event == "stage_started":
            open_stages.append(event)
            steps.pop(event.stage, None)
        elif event.event == "step" and event.data.get("unit") != "bytes":
            steps[event.stage] = int(event.data.get("done", 0))
        elif event.event in _ENDS and any(e.stage == event.stage for e in open_stages):
            while (begun := open_stages.pop()).stage != event.stage:
                pass
            depth = len(open_stages)
            # Events are stamped in whole milliseconds: neighbours must not overlap for that.
            begin = max(float(begun.timestamp_ms - zero), last_end.get(depth, 0.0))
            ms = float(event.timestamp_ms - begun.timestamp_ms)
            if "ms" in event.data:  # exact, and the sum where the stage ran before
                so_far = float(event.data["ms"])
                ms, summed[event.stage] = so_far - summed.get(event.stage, 0.0), so_far
            last_end[depth] = begin + ms
            yield Span(event.stage, begin, ms, depth, _ENDS[event.event], steps.get(event.stage))
    for depth, begun in enumerate(open_stages):  # cut off: the process ended, or too many events
        begin = float(begun.timestamp_ms - zero)
        yield Span(begun.stage, begin, events[-1].timestamp_ms - zero - begin, depth, failed=True)

"""Reports as one page that needs nothing else: no script, no font, no file from anywhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.results import RunReport
from jumar.reporting.exhibits import Exhibit, embedded
from jumar.reporting.files import Found
from jumar.reporting.timeline import Span, fell_back, spans, total_ms, was_tried
from jumar.reporting.units import milliseconds, size

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
_TEXT_LIMIT = 4_000
_TITLE_LIMIT = 110
_TICKS = 5


def as_html(found: Sequence[Found]) -> str:
    """The HTML of one or more reports, in the order given.

    Pictures, sound and video are embedded; a file that is gone or is no longer the one that the
    run wrote is named so.
    """
    runs = [
        _Run.of(report, [embedded(artifact, path, report) for artifact in report.artifacts])
        for path, report in found
    ]
    longest = max((run.total for run in runs), default=0.0) or 1.0
    return environment().get_template("page.html.j2").render(runs=runs, longest=longest)


def as_article(report: RunReport, exhibits: Sequence[Exhibit]) -> str:
    """One report as a part of somebody's page, which has `page.css`. No style, no script in it."""
    drawn = environment().get_template("run.html.j2").module.article  # type: ignore[attr-defined]
    return str(drawn(_Run.of(report, exhibits), f"run-{report.run_id}", alone=False))


@cache
def environment(*folders: Path) -> Environment:
    """What the templates of these folders, and those here, are drawn with: everything is escaped,
    and nothing may be missing.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([*folders, TEMPLATES]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {"ms": milliseconds, "size": size, "value": _shown}
    made.tests |= {"fallback": fell_back, "tried": lambda a: was_tried(a.ok, a.reason)}
    return made


@dataclass(frozen=True)
class _Run:
    """One report, with everything computed that the template draws."""

    report: RunReport
    title: str
    began: str | None
    total: float
    stages: list[Span]
    ticks: list[float]
    scale: float
    exhibits: Sequence[Exhibit]
    settings: list[tuple[str, Any, str]]

    @classmethod
    def of(cls, report: RunReport, exhibits: Sequence[Exhibit]) -> _Run:
        stages = spans(report)
        total = total_ms(report)
        scale = max([total, *(span.end for span in stages)]) or 1.0
        events = report.stream_events
        return cls(
            report=report,
            title=title_of(report.inputs) or report.model,
            began=_clock(events[0].timestamp_ms) if events else None,
            total=total,
            stages=stages,
            ticks=_ticks(scale),
            scale=scale,
            exhibits=exhibits,
            settings=_settings(report),
        )

    @property
    def longest_stage(self) -> str | None:
        """Where most of the time went."""
        outer = [span for span in self.stages if span.depth == 0]
        return max(outer, key=lambda span: span.ms).stage if outer else None

    @property
    def narrow(self) -> bool:
        """Whether what was made is so narrow that the timeline fits beside it."""
        widths = [e.artifact.width for e in self.exhibits if e.artifact.kind == "image" and e.uri]
        return 0 < len(widths) == len(self.exhibits) and sum(widths) <= 420

    @property
    def state(self) -> str:
        """`failed`, `fell back`, `warned` or `ok`."""
        report = self.report
        if report.error is not None:
            return "failed"
        if any(fell_back(entry) for entry in report.backend_timeline):
            return "fell back"
        return "warned" if report.warnings else "ok"


def title_of(inputs: Mapping[str, Any]) -> str:
    """What was asked for, in its own words where it has some; empty where nothing was."""
    for key in ("prompt", "texts"):
        value = inputs.get(key)
        words = " / ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if words.strip():
            return words if len(words) <= _TITLE_LIMIT else f"{words[:_TITLE_LIMIT].rstrip()}…"
    given = [inputs[key] for key in ("audio", "image") if inputs.get(key)]
    return ", ".join(Path(str(file)).name for file in given)


def _clock(timestamp_ms: int) -> str:
    return f"{datetime.fromtimestamp(timestamp_ms / 1e3, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _ticks(scale: float) -> list[float]:
    """Round numbers (1, 2 or 5 times a power of ten) from 0 to `scale`, at most six."""
    rough = scale / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough)
    return [n * step for n in range(int(scale / step) + 1)]


def _settings(report: RunReport) -> list[tuple[str, Any, str]]:
    """Key, value, origin; what somebody set stands before what nobody touched.

    Keys without a value are named in one row at the end.
    """
    origins = report.config_origins
    rows = [
        (key, value, origins.get(key, ""))
        for key, value in report.config_resolved.items()
        if value is not None
    ]
    rows.sort(key=lambda row: (row[2] in ("", "default"), row[0]))
    unset = [key for key, value in report.config_resolved.items() if value is None]
    return [*rows, ("not set", ", ".join(sorted(unset)), "")] if unset else rows


def _shown(value: Any) -> str:
    """A value as text: strings as they are, all else as JSON; cut where it is very long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= _TEXT_LIMIT:
        return text
    return f"{text[:_TEXT_LIMIT]}… ({len(text):,} characters)"

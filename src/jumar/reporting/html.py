"""Reports as one page that needs nothing else: no script, no font, no file from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from jumar.contracts.results import Artifact, RunReport
from jumar.reporting.files import Found
from jumar.reporting.timeline import Span, fell_back, spans, total_ms, was_tried
from jumar.reporting.units import describe, milliseconds, size
from jumar.reporting.vectors import rows_of, similarities

EMBED_LIMIT = 64_000_000
"""Bytes of one artifact that are put into the page; a larger file is only named."""
_TEXT_LIMIT = 4_000
_TITLE_LIMIT = 110
_HEAT_LIMIT = 16
_TICKS = 5


def as_html(found: Sequence[Found]) -> str:
    """The HTML of one or more reports, in the order given.

    Pictures, sound and video are embedded; a file that is gone or is no longer the one that the
    run wrote is named so.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters |= {"ms": milliseconds, "size": size, "value": _shown}
    environment.tests |= {"fallback": fell_back, "tried": lambda a: was_tried(a.ok, a.reason)}
    runs = [_Run.of(path, report) for path, report in found]
    longest = max((run.total for run in runs), default=0.0) or 1.0
    return environment.get_template("page.html.j2").render(runs=runs, longest=longest)


@dataclass(frozen=True)
class _Exhibit:
    """An artifact as the page shows it: `uri` embeds it, `note` says why it does not."""

    artifact: Artifact
    facts: str
    uri: str | None = None
    note: str | None = None
    labels: list[str] = field(default_factory=list)
    heat: list[list[float]] = field(default_factory=list)


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
    exhibits: list[_Exhibit]
    settings: list[tuple[str, Any, str]]

    @classmethod
    def of(cls, path: Path, report: RunReport) -> _Run:
        stages = spans(report)
        total = total_ms(report)
        scale = max([total, *(span.end for span in stages)]) or 1.0
        events = report.stream_events
        return cls(
            report=report,
            title=_title(report),
            began=_clock(events[0].timestamp_ms) if events else None,
            total=total,
            stages=stages,
            ticks=_ticks(scale),
            scale=scale,
            exhibits=[_exhibit(artifact, path, report) for artifact in report.artifacts],
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


def _title(report: RunReport) -> str:
    """What was asked for, in its own words where it has some."""
    for key in ("prompt", "texts"):
        value = report.inputs.get(key)
        words = " / ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if words.strip():
            return words if len(words) <= _TITLE_LIMIT else f"{words[:_TITLE_LIMIT].rstrip()}…"
    given = [report.inputs[key] for key in ("audio", "image") if report.inputs.get(key)]
    files = [Path(str(file)).name for file in given]
    return ", ".join(files) or report.model


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


def _exhibit(artifact: Artifact, report_path: Path, report: RunReport) -> _Exhibit:
    facts = describe(artifact)
    try:
        content = _content(artifact, report_path)
    except OSError as error:
        return _Exhibit(artifact, facts, note=f"The file cannot be read: {error.strerror}.")
    if content is None:
        return _Exhibit(artifact, facts, note=f"Over {size(EMBED_LIMIT)}: not embedded.")
    note = None
    if artifact.sha256 and hashlib.sha256(content).hexdigest() != artifact.sha256:
        note = "The file is no longer the one that this run wrote."
    if artifact.kind == "vectors":
        rows = rows_of(content) or []
        heat = similarities(rows) if 1 < len(rows) <= _HEAT_LIMIT else []
        return _Exhibit(artifact, facts, note=note, labels=_labels(report, len(heat)), heat=heat)
    uri = f"data:{artifact.mime};base64,{base64.b64encode(content).decode('ascii')}"
    return _Exhibit(artifact, facts, uri=uri, note=note)


def _content(artifact: Artifact, report_path: Path) -> bytes | None:
    """The bytes of an artifact, None where they are too many.

    A report that was moved together with its artifacts still finds them beside it.
    """
    if artifact.data_b64 is not None:
        return base64.b64decode(artifact.data_b64)
    path = Path(artifact.path)
    if not path.exists():
        path = report_path.parent / path.name
    return path.read_bytes() if path.stat().st_size <= EMBED_LIMIT else None


def _labels(report: RunReport, count: int) -> list[str]:
    texts = report.inputs.get("texts")
    if isinstance(texts, list) and len(texts) == count:
        return [str(text) for text in texts]
    return [str(number + 1) for number in range(count)]


def _shown(value: Any) -> str:
    """A value as text: strings as they are, all else as JSON; cut where it is very long."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if len(text) <= _TEXT_LIMIT:
        return text
    return f"{text[:_TEXT_LIMIT]}… ({len(text):,} characters)"

"""A report on the terminal: stages drawn to scale, what fell back, what was made."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from jumar.contracts.results import Artifact, BackendAttempt, RunReport
from jumar.reporting.timeline import Span, fell_back, spans, total_ms, was_tried
from jumar.reporting.units import describe, milliseconds, size

_BAR = 32
_LEFT_EIGHTHS = " ▏▎▍▌▋▊▉█"
_LEVELS = {"compile": "graph", "kernel_override": "kernel", "eager": "eager"}


def as_table(report: RunReport) -> RenderableType:
    """All of a report that fits a terminal, as one rich renderable."""
    return Group(_head(report), *(Padding(part, (1, 0, 0, 2)) for part in _parts(report)))


def _head(report: RunReport) -> Text:
    failed = report.error is not None
    return Text.assemble(
        ("✗ ", "bold red") if failed else ("✓ ", "bold green"),
        (report.model, "bold"),
        f"  {report.task} on {report.where}  ",
        (milliseconds(total_ms(report)), "bold"),
        (f"  {report.run_id}", "dim"),
    )


def _parts(report: RunReport) -> Iterator[RenderableType]:
    if report.error is not None:
        yield _error(report)
    if stages := spans(report):
        yield _stages(stages, total_ms(report))
    if report.backend_timeline:
        yield _modules(report)
    if report.warnings:
        yield Text("\n").join(Text(f"! {warning}", style="yellow") for warning in report.warnings)
    if facts := _facts(report):
        yield Text(" · ").join(Text(fact) for fact in facts)
    if report.artifacts:
        yield _artifacts(report.artifacts)


def _error(report: RunReport) -> Text:
    detail = report.error_detail
    code = detail.code if detail else "run_failed"
    text = Text.assemble((f"error[{code}]: ", "bold red"), report.error or "")
    if detail and detail.hint:
        text.append_text(Text.assemble(("\nhint: ", "cyan"), detail.hint))
    if detail and detail.cause:
        text.append(f"\ncause: {detail.cause}", style="dim")
    return text


def _stages(stages: list[Span], total: float) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(no_wrap=True)
    grid.add_column(justify="right", no_wrap=True)
    scale = max(total, max(span.end for span in stages)) or 1.0
    for span in stages:
        name = Text("  " * span.depth + span.stage, style="bold")
        if (span.steps or 0) > 1:
            name.append(f" {span.steps} steps", style="not bold dim")
        grid.add_row(name, _bar(span, scale), milliseconds(span.ms))
    return grid


def _bar(span: Span, scale: float) -> Text:
    """The stage's place in the run, to an eighth of a character at its end."""
    first = min(int(span.begin / scale * _BAR), _BAR - 1)
    eighths = max(round(span.ms / scale * _BAR * 8), 1)
    full, rest = divmod(min(eighths, (_BAR - first) * 8), 8)
    bar = "█" * full + (_LEFT_EIGHTHS[rest] if rest else "")
    return Text.assemble(
        ("·" * first, "dim"),
        (bar, "red" if span.failed else "cyan"),
        ("·" * (_BAR - first - len(bar)), "dim"),
    )


def _modules(report: RunReport) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column()
    for entry in report.backend_timeline:
        shown = Text("  ").join(_attempt(attempt) for attempt in entry.attempts)
        if fell_back(entry):
            shown.append("  fell back", style="bold yellow")
        grid.add_row(entry.module, shown)
    return grid


def _attempt(attempt: BackendAttempt) -> Text:
    name = _LEVELS[attempt.level]
    if attempt.selected:
        return Text(f"{name} ✓", style="green")
    if was_tried(attempt.ok, attempt.reason):
        return Text(f"{name} ✗ {attempt.reason or ''}".rstrip(), style="yellow")
    return Text(name, style="dim strike")


def _facts(report: RunReport) -> list[str]:
    facts = []
    if peak := report.memory.get("peak_mb"):
        facts.append(f"peak {size(peak * 1e6)}")
    if report.parity is not None:
        facts.append(f"goldens {report.parity.status}")
    if report.operators.quarantined:
        facts.append(f"quarantined: {', '.join(report.operators.quarantined)}")
    if report.cache_hits:
        facts.append(f"from cache: {', '.join(report.cache_hits)}")
    return facts


def _artifacts(artifacts: list[Artifact]) -> Table:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_column(style="dim", no_wrap=True)
    for artifact in artifacts:
        shown = Text(artifact.path)
        if artifact.text:
            shown.append(f"\n{artifact.text}", style="italic")
        grid.add_row(artifact.kind, shown, describe(artifact))
    return grid

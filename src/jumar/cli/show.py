"""Results and resolved requests, for people and for programs.

What was made goes to stdout, what is said of it to stderr: `play $(jumar generate …)` works.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.errors import exit_code_for, tell
from jumar.reporting.timeline import fell_back, total_ms
from jumar.reporting.units import milliseconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jumar.catalog import ResolvedRequest
    from jumar.contracts.errors import JumarError
    from jumar.contracts.results import GenerateResult, RunReport

_CUT = 72


def as_json(value: Any) -> None:
    """Print JSON data."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def result(done: GenerateResult, *, json_only: bool, quiet: bool, folder: Path) -> int:
    """Print the result of a run; its exit code. `folder` is where its report may be."""
    report = done.metadata
    detail = report.error_detail
    code = 0 if done.ok else exit_code_for(detail.code) if detail else 1
    if json_only:
        click.echo(done.model_dump_json(indent=2))
        return code
    if not done.ok:
        if detail:
            tell(detail.code, detail.message, detail.hint, detail.cause)
        else:
            tell("run_failed", report.error or "The run failed.")
        _name_report(report, folder)
        return code
    for artifact in done.outputs:
        click.echo(artifact.path if artifact.text is None else artifact.text)
    if not quiet:
        _summary(report)
    return code


def _summary(report: RunReport) -> None:
    for warning in report.warnings:
        click.secho(f"warning: {warning}", fg="yellow", err=True)
    for entry in report.backend_timeline:
        if fell_back(entry):
            taken = next((a.level for a in entry.attempts if a.selected), "nothing")
            click.secho(f"fallback: {entry.module} runs as {taken}.", fg="yellow", err=True)
    parts = [f"{report.model} on {report.where}", milliseconds(total_ms(report))]
    parts += [a.path for a in report.artifacts if a.text is not None]
    parts.append(f"run {report.run_id}")
    click.echo(click.style(" · ".join(parts), dim=True), err=True)


def folder_of(out: str) -> Path:
    """The folder that `--out` means: itself, or the one of the file it names."""
    path = Path(out).expanduser()
    return path if path.is_dir() else path.parent


def _name_report(report: RunReport, folder: Path) -> None:
    path = folder / f"{report.run_id}.report.json"
    if path.exists():
        click.secho(f"report: {path}", dim=True, err=True)


def resolved(request: ResolvedRequest, *, json_only: bool) -> None:
    """Print what a request became, and where each value comes from."""
    if json_only:
        as_json(
            {
                "ok": True,
                "task": request.task,
                "model": request.manifest.id,
                "backend": request.backend,
                "inputs": request.inputs,
                "config": request.public_config(),
                "origins": request.origins,
            }
        )
        return
    click.echo(f"{request.manifest.id}  {request.task}  on {request.backend}")
    rows = [("inputs", key, _short(value), "caller") for key, value in request.inputs.items()]
    config = request.public_config()
    rows += [
        ("config", key, _short(config[key]), origin)
        for key, origin in request.origins.items()
        if config.get(key) is not None
    ]
    columns(rows, dim=lambda row: row[-1].startswith("default"))
    unset = [key for key, value in config.items() if value is None]
    if unset:
        click.echo(click.style(f"not set: {', '.join(unset)}", dim=True))


def problems(found: Sequence[JumarError], *, json_only: bool) -> None:
    """Print everything that is wrong with a request."""
    if json_only:
        as_json({"ok": False, "errors": [error.envelope()["error"] for error in found]})
        return
    for error in found:
        tell(error.code, error.message, error.hint, error.cause)


def columns(rows: Sequence[Sequence[str]], *, dim: Any = None, indent: int = 2) -> None:
    """Print rows with their columns below each other; the last column is not padded."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        line = " " * indent + "  ".join([*padded[:-1], row[-1]])
        click.echo(click.style(line, dim=True) if dim and dim(row) else line)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = " ".join(text.split())
    return text if len(text) <= _CUT else f"{text[:_CUT]}… ({len(text):,} characters)"

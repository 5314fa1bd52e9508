"""`jumar operators check`: every implementation by itself, against the CPU in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from jumar.lab.check import Summary
    from jumar.lab.check.running import Done

COLOURS = {"correct": "green", "unsupported": "yellow", "out_of_memory": "yellow"}
ROWS = 40
"""Subjects that the table shows; the page and the JSON have all."""


@click.command()
@click.option("--device", required=True, metavar="DEVICE", help="npu:0, cuda:0, cpu.")
@click.option(
    "--provider",
    default="device",
    show_default=True,
    help="Whose implementations: `device` is the dispatcher's kernels.",
)
@click.option("--op", "patterns", multiple=True, metavar="PATTERN", help="mm, aten::*softmax*, …")
@click.option("--model", metavar="MODEL", help="The calls that this model makes there.")
@click.option(
    "--calls",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Captured calls: read, or written where --model is given.",
)
@click.option("--dtype", "dtypes", multiple=True, metavar="NAME", help="Default: four of them.")
@click.option(
    "--resume",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Keep findings there, and do not make again those that it has.",
)
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page.")
@click.option(
    "--limit",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    metavar="SECONDS",
    help="A case that takes longer hangs.",
)
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True)
@click.option("--no-save", is_flag=True, help="Keep no evidence: nothing gets into quarantine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(
    device: str,
    provider: str,
    patterns: Sequence[str],
    model: str | None,
    calls: Path | None,
    dtypes: Sequence[str],
    folder: Path | None,
    html: Path | None,
    limit: float,
    workers: int,
    no_save: bool,
    as_json: bool,
) -> int:
    """Hold each implementation of an operator to the CPU, by hard inputs of many shapes.

    Without --op, --model or --calls: every operator that torch's own test samples call. A case that
    fails is run again alone in a fresh worker. Exit code 1 where a defect was found.
    """
    from jumar.devices import place
    from jumar.evidence import Store
    from jumar.lab.check import Target, check
    from jumar.lab.check.session import DTYPES

    target = Target(provider, place(device).device.label)
    with _shown(quiet=as_json) as progress:
        summary = check(
            target,
            patterns,
            dtypes=dtypes or DTYPES,
            captured=_captured(model, calls, target.device),
            folder=folder,
            limit=limit,
            workers=workers,
            progress=progress,
        )
    store = Store()
    kept = [] if no_save else summary.evidence(store)
    for record in kept:
        store.add(record)
    if html is not None:
        _write(html, summary)
    if as_json:
        from jumar.cli import show

        show.as_json({**summary.as_dict(), "evidence": [one.id for one in kept]})
    else:
        _print(summary, [one.id for one in kept if one.bad])
    return 1 if summary.bad else 0


def _captured(model: str | None, calls: Path | None, device: str) -> list[dict[str, Any]]:
    """The calls of the model, or those in the file."""
    from jumar.lab.check import captured

    if model is None:
        return [] if calls is None else captured.read(calls)
    from jumar import catalog
    from jumar.cli.bisect.model import PRELOAD, answering, plain
    from jumar.contracts.requests import GenerateRequest
    from jumar.isolate import Zygote

    task = next(iter(catalog.get(model).tasks))
    asked = {"task": task, "model": model, "backend": device}
    request = plain(GenerateRequest.model_validate(asked))
    with Zygote(PRELOAD) as zygote, zygote.spawn(captured.capturing, answering, request) as child:
        found: list[dict[str, Any]] = child.call(None).result()
    if calls is not None:
        captured.write(found, calls)
    return found


@contextmanager
def _shown(*, quiet: bool) -> Iterator[Callable[[Done, int], object]]:
    """A bar on a terminal; it counts operators by dtypes."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    text = TextColumn("{task.description}")
    with Progress(*columns, text, console=console, transient=True, disable=quiet) as bar:
        shown = bar.add_task("starting workers", total=None)

        def progress(done: Done, total: int) -> None:
            what = f"{done.task.operator} {done.task.dtype}"
            bar.update(shown, advance=1, total=total, description=what)

        yield progress


def _write(path: Path, summary: Summary) -> None:
    from jumar.contracts.errors import OutputFailed
    from jumar.lab.check.page import as_html

    try:
        path.write_text(as_html(summary), encoding="utf-8")
    except OSError as error:
        raise OutputFailed(f"{path} cannot be written: {error.strerror}.") from error


def _print(summary: Summary, ids: Sequence[str]) -> None:
    from rich.text import Text

    from jumar.cli.table import print_table
    from jumar.lab.check.page import shown

    judgements = [one for one in summary.judgements() if one.kind != "correct"]
    rows = [
        (
            Text(one.subject.operator, style="bold"),
            Text(one.kind, style=COLOURS.get(one.kind, "red")),
            one.subject.dtype,
            one.subject.shape_class,
            f"{one.bad} of {one.cases}" if one.bad else str(one.cases),
            one.finding.verdict.reason[:160],
        )
        for one in judgements[:ROWS]
    ]
    if rows:
        headings = ("operator", "verdict", "dtype", "shapes", "cases", "what was seen")
        print_table(rows, headings=headings)
        click.echo("")
    if len(judgements) > ROWS:
        click.secho(f"and {len(judgements) - ROWS} more: --html or --json has them all", dim=True)
    operators = len({one.case.operator for one in summary.findings})
    counted = ", ".join(f"{count} {kind}" for kind, count in summary.kinds().items())
    where = f"{summary.target.provider} on {summary.target.device} ({shown(summary.fingerprint)})"
    click.echo(f"{where}: {operators} operators, {len(summary.findings)} cases: {counted or '-'}")
    for operator, why in summary.refused.items():
        click.secho(f"{operator}: not judged: {why}", dim=True)
    for task, why in summary.not_run.items():
        click.secho(f"{task}: {why}", fg="yellow")
    if ids:
        click.secho(f"A script that shows it: jumar evidence show {ids[0]} --script", dim=True)

"""A verification as people and programs see it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.show import as_json
from jumar.cli.table import print_table
from jumar.lab.golden import covered, sentence
from jumar.parity.answers import QUANTITIES, distance

if TYPE_CHECKING:
    from jumar.evidence import Evidence
    from jumar.lab.golden import Golden, Outcome, Reference, Request

_COLOURS = {"matched": "green", "failed": "red", "unverified": "yellow"}


@contextmanager
def counting(what: str) -> Iterator[Callable[[int, int | None], object]]:
    """A line that counts requests, where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task(what, total=None)
        yield lambda done, total: shown.update(task, completed=done, total=total)


def print_outcome(golden: Golden, outcome: Outcome, named: list[Evidence] | None) -> None:
    """A row per request, what was found, who is guilty, the status, and what was covered."""
    rows = [_row(request, outcome) for request in golden.requests]
    print_table(rows, headings=("REQUEST", "COVERS", "REFERENCE", "ALIKE", "REPEAT", "WORST"))
    click.echo()
    for finding in outcome.findings:
        click.secho(f"✗ {sentence(finding)}", fg="red")
    for one in named or ():
        click.secho(f"  guilty: {one.subject}: {one.reason} (evidence {one.id})", fg="red")
    if named is not None and not named:
        click.echo("  no operator's own numbers are wrong: try jumar bisect")
    for note in outcome.notes:
        click.secho(f"note: {note}", dim=True)
    counts = (
        f"{outcome.matched} of {outcome.checked} answers match {outcome.reference.key}"
        if outcome.reference
        else f"there is no reference for {outcome.key}"
    )
    status = click.style(outcome.status, fg=_COLOURS[outcome.status], bold=True)
    click.echo(f"{status}: {golden.model} on {outcome.key}: {counts}.")
    click.echo(f"Covered: {', '.join(covered(golden)) or 'nothing that has a name'}.")
    if outcome.status == "unverified":
        made = f"jumar golden record {golden.model} --device …"
        click.secho(f"A reference is made by: {made}", dim=True)


def outcome_as_json(golden: Golden, outcome: Outcome, named: list[Evidence] | None) -> None:
    """The same for programs."""
    as_json(
        {
            "model": golden.model,
            "key": str(outcome.key),
            "status": outcome.status,
            "checked": outcome.checked,
            "matched": outcome.matched,
            "alike": outcome.alike,
            "repeated": outcome.repeated,
            "covers": covered(golden),
            "reference": str(outcome.reference.key) if outcome.reference else None,
            "findings": [vars(finding) for finding in outcome.findings],
            "guilty": named and [{"id": one.id, **one.model_dump()} for one in named],
            "notes": list(outcome.notes),
        }
    )


def print_distances(reference: Reference, outcome: Outcome) -> None:
    """How far each answer is from the reference's, the farthest first."""
    rows = [
        (request, name, QUANTITIES[quantity].what, f"{far:.3g}")
        for request, name, quantity, far in _distances(reference, outcome)
    ]
    print_table(rows, headings=("REQUEST", "ANSWER", "MEASURE", "DISTANCE"), right="3")
    click.secho(f"{outcome.key} beside {reference.key}: distances, no verdict.", dim=True)


def distances_as_json(reference: Reference, outcome: Outcome) -> None:
    """The same for programs."""
    keys = ("request", "answer", "quantity", "distance")
    rows = [dict(zip(keys, row, strict=True)) for row in _distances(reference, outcome)]
    as_json({"key": str(outcome.key), "with": str(reference.key), "distances": rows})


def _distances(reference: Reference, outcome: Outcome) -> list[tuple[str, str, str, float]]:
    found = [
        (request, name, answer.quantity, distance(wanted, answer))
        for request, told in outcome.answers.items()
        for name, answer in told.items()
        if (wanted := reference.answers.get(request, {}).get(name)) is not None
    ]
    return sorted(found, key=lambda row: -row[3])


def _row(request: Request, outcome: Outcome) -> list[Any]:
    found = [one for one in outcome.findings if one.request in (request.name, "*")]
    kinds = {one.check for one in found}
    told = outcome.answers.get(request.name, {})
    wanted = outcome.reference.answers.get(request.name, {}) if outcome.reference else {}
    mark = {True: "✗", False: "✓"}
    far = [distance(wanted[name], told[name]) for name in told if name in wanted]
    return [
        request.name,
        ", ".join(request.covers),
        mark[bool(kinds & {"reference", "answer"})] if outcome.reference else "none",
        mark["alike" in kinds] if request.same_as else "",
        mark[bool(kinds & {"repeat", "answer"})],
        f"{max(far):.2g}" if far else "",
    ]

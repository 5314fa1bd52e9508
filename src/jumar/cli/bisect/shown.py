"""A bisection as people and programs see it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.show import as_json
from jumar.cli.table import print_table

if TYPE_CHECKING:
    from jumar.evidence import Evidence
    from jumar.lab.bisect import Culprits, Trial
    from jumar.lab.recording import Call

_NAMED = 3
"""As many operators are named in a row of the table; of more, their number is told."""


def on_trial(trial: Trial) -> None:
    """A line for each trial that is over, where stderr is a terminal."""
    if sys.stderr.isatty():
        click.secho("  ".join(_row(0, trial)[1:5]), dim=True, err=True)


def print_found(found: Culprits, conclusion: str, further: Sequence[str] = ()) -> None:
    """The trials, the culprits, and what else there is to say."""
    headings = ("", "TRIAL", "ON", "VERDICT", "TIME", "REASON")
    rows = [_row(number, trial) for number, trial in enumerate(found.log, 1)]
    print_table(rows, headings=headings, right="0 4")
    click.echo()
    for culprit in found.culprits:
        name = click.style(str(culprit), fg="red", bold=True)
        click.echo(f"guilty: {name}: {culprit.verdict.kind}. {culprit.verdict.reason}")
    click.echo(conclusion)
    for line in further:
        click.echo(line)


def conclusion_of(found: Culprits) -> str:
    """What follows from the trials, in a sentence or two."""
    if found.finding == "passes":
        return "Nothing fails: with everything on, the check passes."
    if found.finding == "elsewhere":
        return "The fault is not in these operators: with all of them off, it fails too."
    number = len(found.log) - found.trials
    told = f"{found.trials} trials and {number} controls; with the guilty off, the check passes."
    if found.confidence is None:
        return told
    return f"{told} The chance that no trial passed by luck is {found.confidence:.1%}."


def found_as_json(
    found: Culprits, conclusion: str, stops: Sequence[Call], records: Sequence[Evidence]
) -> None:
    """The same for programs."""
    as_json(
        {
            "finding": found.finding,
            "conclusion": conclusion,
            "culprits": [
                {
                    "overrides": [one._asdict() for one in culprit.overrides],
                    "verdict": culprit.verdict.kind,
                    "reason": culprit.verdict.reason,
                }
                for culprit in found.culprits
            ],
            "trials": found.trials,
            "confidence": found.confidence,
            "stopped_in": [str(call) for call in stops],
            "log": [_trial(trial) for trial in found.log],
            "evidence": [record.id for record in records],
        }
    )


def _row(number: int, trial: Trial) -> tuple[str, ...]:
    names = sorted(one.operator for one in trial.on)
    shown = ", ".join(names) if 0 < len(names) <= _NAMED else f"{len(names)} operators"
    ran = f" ({trial.failed} of {trial.runs})" if trial.runs > 1 else ""
    return (
        str(number),
        trial.purpose,
        shown,
        trial.verdict.kind + ran,
        f"{trial.seconds:.1f} s",
        trial.verdict.reason,
    )


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "purpose": trial.purpose,
        "on": sorted(one.operator for one in trial.on),
        "verdict": trial.verdict.kind,
        "reason": trial.verdict.reason,
        "runs": trial.runs,
        "failed": trial.failed,
        "seconds": round(trial.seconds, 3),
    }

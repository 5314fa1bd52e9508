"""A check as one HTML page that needs nothing else: rows that filter and unfold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.lab.check.base import Finding
    from jumar.lab.check.summary import Judgement, Summary


@dataclass(frozen=True)
class Row:
    """The subjects of one operator and dtype with one verdict; never none."""

    judgements: list[Judgement]

    @property
    def finding(self) -> Finding:
        """The one that is shown whole."""
        return self.judgements[0].finding

    @property
    def shapes(self) -> str:
        """The shape classes, in a word where they are many."""
        classes = [one.subject.shape_class for one in self.judgements]
        return classes[0] if len(classes) == 1 else f"{len(classes)} classes"

    @property
    def reasons(self) -> dict[str, list[str]]:
        """For each reason the shape classes that had it."""
        found: dict[str, list[str]] = {}
        for one in self.judgements:
            found.setdefault(one.finding.verdict.reason, []).append(one.subject.shape_class)
        return found

    @property
    def cases(self) -> int:
        """How many calls."""
        return sum(one.cases for one in self.judgements)

    @property
    def bad(self) -> int:
        """How many of them were bad."""
        return sum(one.bad for one in self.judgements)


def rows(judgements: Iterable[Judgement]) -> list[Row]:
    """The rows, in the order of the judgements."""
    found: dict[tuple[str, str, str], Row] = {}
    for one in judgements:
        key = (one.kind, one.subject.operator, one.subject.dtype)
        found.setdefault(key, Row([])).judgements.append(one)
    return list(found.values())


def as_html(summary: Summary) -> str:
    """The page; emulated devices are called emulated in its title."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    shown_rows = rows(summary.judgements())
    columns = {
        "verdict": sorted({one.finding.verdict.kind for one in shown_rows}),
        "dtype": sorted({one.finding.case.dtype for one in shown_rows}),
    }
    return environment.get_template("page.html.j2").render(
        summary=summary, rows=shown_rows, columns=columns, where=shown(summary.fingerprint)
    )


def shown(fingerprint: Mapping[str, str]) -> str:
    """What was checked on, in words."""
    name = fingerprint.get("chip", fingerprint["device_class"])
    if not fingerprint["device_class"].endswith("-emulated"):
        return name
    return f"{name.removesuffix(' (emulated)')}, emulated: no hardware was checked"

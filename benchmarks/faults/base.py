"""The words of the bench: a row is a real fault, a case one way of injecting it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROWS = Path(__file__).with_name("rows.yaml")
CARD = "npu:0"
LIMIT = 4.0
"""Seconds after which a call hangs."""


@dataclass(frozen=True)
class Row:
    """A fault as it was reported. `cases` are what scenes are given; `instead` why there are none.

    `partly` says what of the fault the cases leave out, `hole` why a tool does not find it, name it
    or help against it.
    """

    number: int
    kinds: Sequence[str]
    symptom: str
    references: Sequence[str]
    cases: Sequence[Mapping[str, Any]] = ()
    instead: str = ""
    partly: str = ""
    hole: str = ""

    def label(self, place: int) -> str:
        """`5`, or `5a`, `5b` where there are several cases."""
        return f"{self.number}{chr(97 + place) if len(self.cases) > 1 else ''}"


@dataclass(frozen=True)
class Measured:
    """What came out of a case. None where a question has no meaning in its scene.

    `seen` is what a user meets without any tool. `detected` is the tool that said that something is
    wrong, `named` whether it named the guilty and all of them, `served` whether the answer is right
    with them in quarantine. `alarms` are names that were blamed with nothing to blame them for.
    """

    seen: str
    detected: str | None
    named: bool | None
    quarantined: bool | None = None
    served: bool | None = None
    alarms: tuple[str, ...] = ()
    said: str = ""
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether all that was asked was answered well."""
        answers = (self.detected is not None, self.named, self.quarantined, self.served)
        return False not in answers and not self.alarms


def read(path: Path = ROWS) -> list[Row]:
    """The rows of the bench, by number. A row has cases, or says why it has none."""
    import yaml

    rows = [Row(**one) for one in yaml.safe_load(path.read_text(encoding="utf-8"))]
    for row in rows:
        if bool(row.cases) == bool(row.instead):
            raise ValueError(f"row {row.number} has to have either cases or instead")
    return rows


def chosen(rows: Iterable[Row], numbers: str) -> list[Row]:
    """Those of `5,6,9`; all where nothing is asked. Raises ValueError for a number of no row."""
    known = {str(row.number): row for row in rows}
    asked = [one.strip() for one in numbers.split(",") if one.strip()]
    if unknown := [one for one in asked if one not in known]:
        raise ValueError(f"there is no row {', '.join(unknown)}: rows are 1 to {len(known)}")
    return [known[one] for one in asked] if asked else list(known.values())

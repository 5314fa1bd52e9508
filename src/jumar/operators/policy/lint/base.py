"""What a lint finds: one row per finding, and the table of all kinds of findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning", "note"]


class Kind(NamedTuple):
    """A kind of finding: how bad it is, and what it means in general."""

    severity: Severity
    means: str


CODES: Mapping[str, Kind] = {
    "dead-entry": Kind("error", "matches nothing: what it should switch off goes on computing"),
    "wrong-list": Kind("error", "the name is one of another list's"),
    "unknown-name": Kind("error", "an operator, family or provider that is not there"),
    "unknown-token": Kind("error", "an order's word that matches nothing, which nobody is told"),
    "unknown-key": Kind("error", "a key that nothing reads, or a value that counts as another"),
    "unread-key": Kind("warning", "a key that the library's code does not act on"),
    "no-fallback": Kind("error", "an order that leaves the reference out, and is not strict"),
    "both-lists": Kind("error", "a whitelist and a blacklist: the library takes one of them"),
    "not-read": Kind("error", "a list, or a whole file, that could not be read"),
    "partial-cover": Kind("warning", "other overloads of the same operator stay on"),
    "re-enters": Kind("warning", "what computes it instead calls operators that stay on"),
    "contradiction": Kind("warning", "one line switches on what another one switches off"),
    "duplicate": Kind("warning", "stands twice"),
    "no-source": Kind("warning", "nobody can tell later why the line is there"),
    "unproven": Kind("warning", "the catalogue lists nothing that the line could be held against"),
    "already-off": Kind("note", "the library leaves it out here without being told"),
}


@dataclass(frozen=True)
class Finding:
    """One finding. `entry` is the text it is about, `nearest` live names, `fix` what to write."""

    code: str
    file: str
    line: int
    entry: str
    message: str
    nearest: tuple[str, ...] = ()
    fix: str = ""
    severity_here: Severity | None = None

    @property
    def severity(self) -> Severity:
        """That of its kind, unless it is milder here."""
        return self.severity_here or CODES[self.code].severity

    def to_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "entry": self.entry,
            "message": self.message,
            "nearest": list(self.nearest),
            "fix": self.fix or None,
        }

"""What a shadow has found: the guilty, and how much it has looked at."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jumar.evidence import Evidence, Kind, Subject, shape_class
from jumar.evidence.records import Number


@dataclass(frozen=True)
class Guilty:
    """An operator whose own numbers were wrong, in one class of shapes and one dtype.

    `layer` and `shapes` are those of its worst call; `calls` counts the guilty ones.
    """

    operator: str
    kind: Kind
    reason: str
    implementation: str = "device"
    shapes: tuple[tuple[int, ...], ...] = ()
    dtype: str = "*"
    layer: str | None = None
    numbers: dict[str, Number] = field(default_factory=dict)
    calls: int = 1
    reproducer: str | None = None

    @property
    def subject(self) -> Subject:
        """What it is known by."""
        return Subject(
            operator=self.operator,
            implementation=self.implementation,
            shape_class=shape_class(self.shapes),
            dtype=self.dtype,
        )

    def worse(self, other: Guilty) -> Guilty:
        """The worse of two of the same subject, with the calls of both."""
        first, second = (self, other) if self._badness >= other._badness else (other, self)
        script = first.reproducer or second.reproducer
        return replace(first, calls=self.calls + other.calls, reproducer=script)

    @property
    def _badness(self) -> float:
        return float(self.numbers.get("ulps", "inf"))

    def evidence(self, fingerprint: Mapping[str, str], at: float) -> Evidence:
        """The record of it; `at` seconds since the Unix epoch."""
        return Evidence(
            subject=self.subject,
            fingerprint=dict(fingerprint),
            verdict=self.kind,
            reason=self.reason,
            numbers={**self.numbers, "calls": self.calls},
            layer=self.layer,
            shapes=[list(shape) for shape in self.shapes],
            found_by="shadow",
            reproducer=self.reproducer,
            at=at,
        )


@dataclass
class Coverage:
    """Calls of operators on the device: how many were seen, compared, and left out by reason.

    `host` are those that had nothing to do with the device. `left_out` maps a reason to the
    operators it was met by, with their counts.
    """

    seen: int = 0
    compared: int = 0
    host: int = 0
    left_out: dict[str, Counter[str]] = field(default_factory=dict)

    def leave_out(self, reason: str, operator: str) -> None:
        """Count a call that is not compared."""
        self.left_out.setdefault(reason, Counter())[operator] += 1

    def lines(self) -> list[str]:
        """In words: first the numbers, then a line per reason."""
        head = f"{self.compared} of {self.seen} calls compared"
        rows = sorted(self.left_out.items(), key=lambda row: -sum(row[1].values()))
        return [
            head,
            *(f"{sum(names.values())} {reason}: {_names(names)}" for reason, names in rows),
        ]

    def as_dict(self) -> dict[str, object]:
        """JSON of it."""
        return {
            "seen": self.seen,
            "compared": self.compared,
            "host": self.host,
            "left_out": {reason: dict(names) for reason, names in self.left_out.items()},
        }


def _names(names: Counter[str]) -> str:
    shown = ", ".join(name.removeprefix("aten::") for name, _ in names.most_common(4))
    return shown + (f" and {len(names) - 4} more" if len(names) > 4 else "")

"""The words of a check: a case is one call of one operator, a finding is how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jumar.evidence.records import Kind, Number, Verdict, shape_class

SEVERITY: tuple[Kind, ...] = (
    "aborts",
    "hangs",
    "compile_error",
    "raises",
    "wrong",
    "nondeterministic",
    "leaks",
    "out_of_memory",
    "unsupported",
    "correct",
)
"""Which verdict speaks for several cases of a subject: the first of these that one of them has."""


@dataclass(frozen=True)
class Case:
    """One call of `operator`. `number` counts the calls that were made up for its
    operator and dtype; those that the CPU refused leave gaps.

    `source` says where the inputs come from: an OpInfo, a row of `adversarial.ROWS`, a captured
    call, the schema. `shapes` are those of the tensor arguments.
    """

    operator: str
    dtype: str
    number: int
    source: str
    shapes: tuple[tuple[int, ...], ...] = ()

    @property
    def key(self) -> str:
        """What the case is known by, within one provider and fingerprint."""
        return f"{self.operator} {self.dtype} {self.number} {self.source}"

    @property
    def shape_class(self) -> str:
        """The class of its shapes."""
        return shape_class(self.shapes)


@dataclass(frozen=True)
class Finding:
    """How a case ended. `detail` is a traceback or the stacks of a hang, `script` a reproducer."""

    case: Case
    verdict: Verdict
    seconds: float = 0.0
    detail: str = ""
    script: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """JSON of it."""
        case, verdict = self.case, self.verdict
        return {
            "operator": case.operator,
            "dtype": case.dtype,
            "number": case.number,
            "source": case.source,
            "shapes": [list(shape) for shape in case.shapes],
            "verdict": verdict.kind,
            "reason": verdict.reason,
            "numbers": verdict.numbers,
            "seconds": round(self.seconds, 4),
            "detail": self.detail,
            "script": self.script,
        }

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Finding:
        """Read what `as_dict` wrote."""
        shapes = tuple(tuple(shape) for shape in given["shapes"])
        case = Case(given["operator"], given["dtype"], given["number"], given["source"], shapes)
        numbers: dict[str, Number] = given["numbers"]
        verdict = Verdict(given["verdict"], given["reason"], numbers)
        return cls(case, verdict, given["seconds"], given["detail"], given["script"])


@dataclass(frozen=True)
class Task:
    """What a worker does in one call: the cases of an operator in one dtype.

    `names` are the OpInfos whose samples call the operator, or its functional `sibling` where none
    calls itself; `captured` are calls of a real model (`jumar.lab.check.captured`). Cases in `done`
    are not run again, `only` leaves just those; calls in `avoid` took the process down on the CPU.
    With `scripts_of` nothing is run: the reproducers of these cases are told.
    """

    operator: str
    dtype: str
    names: tuple[str, ...] = ()
    sibling: str | None = None
    captured: tuple[Mapping[str, Any], ...] = ()
    done: frozenset[int] = field(default_factory=frozenset)
    only: frozenset[int] | None = None
    avoid: frozenset[int] = field(default_factory=frozenset)
    scripts_of: frozenset[int] | None = None


@dataclass(frozen=True)
class Target:
    """The implementations to check: those of `provider` on `device` (torch's name)."""

    provider: str
    device: str

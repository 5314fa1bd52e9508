"""One record for everything that shadow, checks, bisect, goldens and failed runs find out."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Kind = Literal[
    "correct",
    "wrong",
    "nondeterministic",
    "raises",
    "aborts",
    "hangs",
    "compile_error",
    "leaks",
    "unsupported",
    "out_of_memory",
]
"""How an implementation did. `unsupported` and `out_of_memory` are no defects."""

KINDS: tuple[Kind, ...] = get_args(Kind)

BAD: frozenset[Kind] = frozenset(
    {"wrong", "nondeterministic", "raises", "aborts", "hangs", "compile_error", "leaks"}
)

Number = int | float | str | bool


@dataclass(frozen=True)
class Verdict:
    """How one trial ended: the kind, a sentence, and what was measured."""

    kind: Kind
    reason: str = ""
    numbers: dict[str, Number] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """True where no defect was seen."""
        return self.kind not in BAD


class Record(BaseModel):
    """Base of what is written down: it does not change any more."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Subject(Record):
    """What a piece of evidence is about.

    `operator` is an overload as torch names it (`aten::mm`, `aten::add.Tensor`) or a layer operator
    (`rms_norm`). `implementation` is the provider that computed it; `device` is the kernel that
    torch's dispatcher has for the device. `*` stands for all shapes or dtypes.
    """

    operator: str
    implementation: str
    shape_class: str = "*"
    dtype: str = "*"

    def __str__(self) -> str:
        narrow = [part for part in (self.dtype, self.shape_class) if part != "*"]
        return f"{self.operator} by {self.implementation}" + (
            f" ({', '.join(narrow)})" if narrow else ""
        )


class Evidence(Record):
    """Something found out about a subject on one machine.

    `fingerprint` is the device's (`Accelerator.fingerprint`, with `device_class`). `reason` is a
    sentence for people; `numbers` what was measured; `layer` the module path where it was seen;
    `reproducer` a Python script that shows it, without Jumar where it can; `at` seconds since the
    Unix epoch; `found_by` shadow, check, bisect, golden, run or recorder.
    """

    subject: Subject
    fingerprint: dict[str, str]
    verdict: Kind
    reason: str = ""
    numbers: dict[str, Number] = Field(default_factory=dict)
    layer: str | None = None
    shapes: list[list[int]] = Field(default_factory=list)
    found_by: str
    reproducer: str | None = None
    at: float

    @property
    def bad(self) -> bool:
        """True for a defect."""
        return self.verdict in BAD

    @property
    def id(self) -> str:
        """The first 12 hex digits of the SHA-256 of the record: its name in a store."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:12]


def shape_class(shapes: Iterable[Sequence[int]]) -> str:
    """The class of a call's shapes: each size rounded up to a power of two, 0 and 1 kept.

    >>> shape_class([(2, 7, 384), (384,)])
    '2x8x512,512'
    >>> shape_class([()])
    'scalar'
    """
    return ",".join("x".join(str(_bucket(n)) for n in shape) or "scalar" for shape in shapes) or "*"


def _bucket(size: int) -> int:
    return size if size < 2 else 1 << (size - 1).bit_length()

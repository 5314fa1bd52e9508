"""What a golden set is: requests, what their answers have to be alike, and references.

A set belongs to one model (by the digest of its weights). It holds *references* by device class,
number format and chip; `npu-emulated` never meets `npu`. The lab knows no model: what asks one is a
callable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from jumar.parity.answers import Answer

Answers = Mapping[str, Answer]
"""The answers to one request, by name: `vector.0`, `words.0`, …"""

Ask = Callable[["Request"], Answers]
"""Asks the model; raises a JumarError where it gives no answer."""

COVERS = (
    "short",
    "long",
    "at-limit",
    "over-limit",
    "padded",
    "batched",
    "permuted",
    "repeated",
    "non-latin",
)
"""What a request can cover. A kernel that ignores a mask or a window passes without the others."""


@dataclass(frozen=True)
class Request:
    """One question. `same_as` maps its answers to those of earlier requests that they must equal:
    `{"vector.0": "short/vector.0"}`: batching, padding and order change no answer.
    """

    name: str
    inputs: Mapping[str, Any]
    config: Mapping[str, Any] = field(default_factory=dict)
    covers: tuple[str, ...] = ()
    same_as: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Key:
    """What a reference holds for: device class, number format, chip."""

    device_class: str
    dtype: str
    chip: str

    @property
    def rounding(self) -> str:
        """The row of limits in `jumar.parity`: CPUs agree closely in float32, all else by its
        format. In a narrow one a batch rounds other than a single text, also on a CPU.
        """
        exact = self.device_class == "cpu" and self.dtype not in ("fp16", "bf16")
        return "cpu" if exact else self.dtype

    def admits(self, other: Key) -> bool:
        """Whether a reference of `self` may judge an answer of `other`: CPUs of all makes agree."""
        chip = self.device_class == "cpu" or self.chip == other.chip
        return chip and (self.device_class, self.dtype) == (other.device_class, other.dtype)

    def __str__(self) -> str:
        return f"{self.device_class} {self.dtype}" + (f" on {self.chip}" if self.chip else "")


@dataclass(frozen=True)
class Reference:
    """The recorded answers of one key: request name -> answers. `made_on` is the fingerprint;
    `anchor` says what they were held against when they were recorded.
    """

    key: Key
    made_on: Mapping[str, str]
    answers: Mapping[str, Answers]
    anchor: str


@dataclass(frozen=True)
class Golden:
    """The golden set of a model."""

    model: str
    digest: str
    task: str
    requests: tuple[Request, ...]
    references: tuple[Reference, ...] = ()

    def reference(self, key: Key) -> Reference | None:
        """The reference that may judge answers of `key`."""
        return next((one for one in self.references if one.key.admits(key)), None)


@dataclass(frozen=True)
class Finding:
    """Something that is not as it has to be. `check` says which of the checks found it."""

    request: str
    answer: str
    check: Literal["reference", "alike", "repeat", "answer"]
    reason: str


@dataclass(frozen=True)
class Outcome:
    """What a verification found. `checked` answers were compared with a reference.

    `status` is `matched`, `failed`, or `unverified`: no reference for this key; the model was only
    held against itself. Nothing checked is never a match.
    """

    key: Key
    checked: int = 0
    alike: int = 0
    repeated: int = 0
    findings: tuple[Finding, ...] = ()
    reference: Reference | None = None
    notes: tuple[str, ...] = ()
    answers: Mapping[str, Answers] = field(default_factory=dict)

    @property
    def status(self) -> Literal["matched", "failed", "unverified"]:
        """`matched` needs a reference, at least one answer compared with it, and no finding."""
        if self.findings:
            return "failed"
        return "matched" if self.reference is not None and self.checked else "unverified"

    @property
    def matched(self) -> int:
        """Answers that equal their reference."""
        bad = {(one.request, one.answer) for one in self.findings if one.check == "reference"}
        return self.checked - len(bad)

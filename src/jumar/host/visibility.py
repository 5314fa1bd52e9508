"""Which chips a process may use: ``ASCEND_RT_VISIBLE_DEVICES``, read as strictly as CANN reads it.

CANN fails without a word: it stops at the first character that is no digit or comma, drops ids that
do not exist, and never sees a name that is spelt wrongly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from jumar.contracts.errors import nearest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

VARIABLE = "ASCEND_RT_VISIBLE_DEVICES"
"""Logical ids in this container, re-indexed from 0 for the process."""
CONTAINER_VARIABLE = "ASCEND_VISIBLE_DEVICES"
"""Physical ids, read only by the Ascend container runtime when it makes the container."""
OTHERS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Correct names that resemble `VARIABLE` and mean something else."""

ProblemKind = Literal[
    "empty", "blank", "not-a-number", "unknown-id", "repeated", "not-ascending", "misspelt-name"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Something that CANN passes over in silence; `text` is the piece it is about."""

    kind: ProblemKind
    text: str
    says: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What the variable leaves visible."""

    value: str | None
    """As set; None where it is not."""
    ids: tuple[int, ...] | None
    """The logical ids in the order of the process: ``npu:0`` is ``ids[0]``. None: all of them."""
    problems: tuple[Problem, ...] = ()

    def index_of(self, logic_id: int) -> int | None:
        """The process index N of ``npu:N``, or None where the chip is not visible."""
        if self.ids is None:
            return logic_id
        return self.ids.index(logic_id) if logic_id in self.ids else None


def read_visibility(
    environ: Mapping[str, str], logic_ids: Collection[int] | None = None
) -> Visibility:
    """What `environ` leaves visible of the chips `logic_ids` (None: not known which exist)."""
    problems = [*_misspelt(environ)]
    value = environ.get(VARIABLE)
    if value is None:
        return Visibility(value=None, ids=None, problems=tuple(problems))
    # What follows the first other character is never looked at.
    read = re.match(r"[0-9,]*", value)
    head = read[0] if read else ""
    if head != value:
        problems.append(_stop(value, len(head)))
    asked = [int(part) for part in head.split(",") if part]
    kept = [one for one in asked if logic_ids is None or one in logic_ids]
    if not value.strip():
        problems.append(Problem(kind="empty", text=value, says=f"{VARIABLE} is set to nothing"))
    for one in dict.fromkeys(asked):
        if one not in kept:
            known = ", ".join(map(str, sorted(logic_ids or ()))) or "none"
            says = f"there is no chip with the logical id {one} here (there are: {known})"
            problems.append(Problem(kind="unknown-id", text=str(one), says=says))
    if len(set(asked)) < len(asked):
        problems.append(Problem(kind="repeated", text=value, says="an id stands there twice"))
    if asked != sorted(asked):
        problems.append(
            Problem(kind="not-ascending", text=value, says="the ids do not stand in rising order")
        )
    return Visibility(value=value, ids=tuple(dict.fromkeys(kept)), problems=tuple(problems))


def _stop(value: str, at: int) -> Problem:
    rest = value[at:]
    if value[at].isspace():
        says = f"a blank ends the list: {rest.strip()!r} is never read"
        return Problem(kind="blank", text=rest, says=says)
    says = f"{value[at]!r} ends the list: {rest!r} is never read"
    return Problem(kind="not-a-number", text=rest, says=says)


def _misspelt(environ: Mapping[str, str]) -> list[Problem]:
    correct = (VARIABLE, CONTAINER_VARIABLE, *OTHERS)
    known = {*correct, *(name for name in environ if name.endswith(f"NOSET_{VARIABLE}"))}
    return [
        Problem(
            kind="misspelt-name",
            text=name,
            says=f"{name} is no variable that CANN reads; {near[0]} is",
        )
        for name in environ
        if name not in known
        and "VISIBLE" in name.upper()
        and (near := nearest(name, correct[:2], limit=1))
    ]

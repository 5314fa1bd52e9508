"""A whole check: which operators, in which dtypes, through workers, into one summary."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidValue, did_you_mean
from jumar.isolate import Zygote
from jumar.lab.check import samples
from jumar.lab.check.base import Finding, Target, Task
from jumar.lab.check.captured import dtype_of
from jumar.lab.check.implementations import fingerprint, listed_by
from jumar.lab.check.journal import Journal
from jumar.lab.check.running import PRELOAD, Done, Laboratory
from jumar.lab.check.siblings import functional
from jumar.lab.check.summary import Summary

DTYPES = ("float32", "float16", "bfloat16", "int64")
"""What operators are checked in where nobody says."""


def check(
    target: Target,
    patterns: Sequence[str] = (),
    *,
    dtypes: Sequence[str] = DTYPES,
    captured: Sequence[Mapping[str, Any]] = (),
    folder: Path | None = None,
    limit: float = 20.0,
    workers: int = 2,
    progress: Callable[[Done, int], object] = lambda done, total: None,
) -> Summary:
    """Check the implementations of `target` and say how each did.

    Args:
        patterns: Operators: `aten::mm`, `mm`, `aten::*softmax*`. Without any: those of the captured
            calls, else all of the provider's that inputs are known for.
        captured: Calls of a real model (`jumar.lab.check.captured`).
        folder: Findings are kept there, and those of an earlier check of the same target and
            fingerprint are not made again.
        limit: Seconds without a sign of life after which a case hangs.
        progress: Called after each operator and dtype, with how many there are.

    Raises:
        InvalidValue: no such device, provider, dtype or operator.
        DependencyMissing: torch, the provider, or a package that torch's samples need.
    """
    begun = time.monotonic()
    known = fingerprint(target.device)
    names = checked_dtypes(dtypes)
    samples.require()
    named = patterns or captured or target.provider != "device"
    operators = chosen(patterns, target, captured=captured) if named else []
    with Zygote(PRELOAD) as zygote:
        laboratory = Laboratory(target, zygote, limit=limit)
        layers = bool(operators) and not any("::" in one for one in operators)
        index = {} if layers else laboratory.index()
        work = tasks(operators or chosen((), target, index), names, index, captured)
        journal = None if folder is None else Journal(folder, target, known)
        ledger = _Ledger(journal, len(work), progress)
        laboratory.run(ledger.left(work), workers=workers, ended=ledger.take)
    return ledger.summary(target, known, time.monotonic() - begun)


def chosen(
    patterns: Sequence[str],
    target: Target,
    index: Iterable[str] = (),
    captured: Sequence[Mapping[str, Any]] = (),
) -> list[str]:
    """The operators that are meant; where nobody says, those of the captured calls or the index.

    Raises:
        InvalidValue: a pattern means none.
    """
    called = dict.fromkeys(one["operator"] for one in captured)
    if target.provider == "device":
        usual = list(called) or [name for name in index if name.startswith("aten::")]
        known = _overloads() if patterns else usual
    else:
        known = list(listed_by(target.provider))
        usual = [name for name in called if name in known] if called else known
    found: dict[str, None] = {} if patterns else dict.fromkeys(sorted(usual))
    for pattern in patterns:
        meant = [name for name in known if _means(pattern, name)]
        if not meant:
            bases = {name for full in known for name in (full, _base(full))}
            raise InvalidValue(
                f"{target.provider} has no operator {pattern!r}.",
                hint=did_you_mean(pattern, bases),
                param="op",
            )
        found |= dict.fromkeys(sorted(meant))
    return list(found)


def tasks(
    operators: Iterable[str],
    dtypes: Sequence[str],
    index: Mapping[str, Sequence[str]],
    captured: Sequence[Mapping[str, Any]] = (),
) -> list[Task]:
    """A task for each operator and dtype, with what calls of it are known."""
    found = []
    for operator in operators:
        sibling = None if operator in index else functional(operator)
        names = tuple(index.get(sibling or operator, ()))
        mine = [one for one in captured if one["operator"] == operator]
        for dtype in dict.fromkeys([*dtypes, *map(dtype_of, mine)]):
            calls = tuple(one for one in mine if dtype_of(one) == dtype)
            found.append(Task(operator, dtype, names, sibling, calls))
    return found


def checked_dtypes(names: Sequence[str]) -> list[str]:
    """The names, where torch has them all. Raises InvalidValue for one that it has not."""
    import torch

    known = [name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype)]
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InvalidValue(f"torch has no dtype {name!r}.", hint=hint, param="dtype")
    return list(names)


class _Ledger:
    """Findings as they come, from the journal and from the workers."""

    def __init__(
        self, journal: Journal | None, total: int, progress: Callable[[Done, int], object]
    ) -> None:
        self._journal, self._total, self._progress = journal, total, progress
        self._findings, self._done = journal.read() if journal else ([], set())
        self._refused: dict[str, dict[str, str]] = {}
        self._not_run: dict[str, str] = {}
        self._taking = threading.Lock()

    def left(self, work: Sequence[Task]) -> list[Task]:
        """The tasks that are not done yet."""
        return [one for one in work if (one.operator, one.dtype) not in self._done]

    def take(self, done: Done) -> None:
        """Note what a task found; called from the threads of the workers."""
        task, findings = done.task, list(done.findings.values())
        with self._taking:
            self._findings += findings
            if not findings:
                self._refused.setdefault(task.operator, {})[task.dtype] = done.refused
            if done.not_run:
                self._not_run[f"{task.operator} {task.dtype}"] = done.not_run
            if self._journal is not None:
                self._journal.add(findings, (task.operator, task.dtype))
            self._progress(done, self._total)

    def summary(self, target: Target, known: Mapping[str, str], seconds: float) -> Summary:
        """All together. An operator is refused that has no case in any dtype."""
        found = sorted(self._findings, key=_order)
        answered = {one.case.operator for one in found}
        refused = {
            operator: next(iter(reasons.values()))
            for operator, reasons in sorted(self._refused.items())
            if operator not in answered
        }
        return Summary(target, known, found, refused, self._not_run, seconds)


def _order(finding: Finding) -> tuple[str, str, int]:
    return finding.case.operator, finding.case.dtype, finding.case.number


def _means(pattern: str, name: str) -> bool:
    return any(fnmatchcase(one, pattern) for one in (name, name.partition("::")[2], _base(name)))


def _base(name: str) -> str:
    return name.rpartition("::")[2].partition(".")[0]


def _overloads() -> list[str]:
    """Everything that torch's dispatcher knows by the names that models call."""
    from jumar.operators.catalogue import live

    return [name for name, one in live().operators.items() if one.kind != "layer"]

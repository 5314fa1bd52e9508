"""From a failing check to the operators that are guilty of it, alone or together.

found = bisect(check, overrides)
for culprit in found.culprits:          # minimal: with one of its members off, the check passes
    print(culprit, culprit.verdict.reason)

QuickXplain (Junker, AAAI 2004) in its dichotomic form (Hemery, Lecoutre, Saïs and Boussemart, ECAI
2006): the members of a minimal failing set are found one by one, each by bisecting for the shortest
list that still fails. A member costs log2 n + 1 trials, less than the recursive form while a set
has few members (`python -m benchmarks bisect` counts both). It holds where a check that fails with
some overrides also fails with more of them; what is named at the end does not rest on that: each
set has failed by itself and passed without each of its members, in trials that were run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from jumar.contracts.errors import InsufficientMemory, InvalidValue, RunFailed
from jumar.lab.base import Check, Override, Overrides, Verdict

Finding = Literal["found", "passes", "elsewhere"]
"""`passes`: it did not fail with everything on. `elsewhere`: it fails with everything off too."""

Purpose = Literal["everything on", "everything off", "suspects", "search", "alone", "rest"]

CONTROLS: tuple[Purpose, ...] = ("everything on", "everything off")


@dataclass(frozen=True)
class Trial:
    """One set of overrides, tried `runs` times; it fails where any of them `failed`."""

    on: Overrides
    purpose: Purpose
    verdict: Verdict
    seconds: float
    runs: int = 1
    failed: int = 0

    @property
    def fails(self) -> bool:
        """Whether a defect was seen."""
        return self.failed > 0


@dataclass(frozen=True)
class Culprit:
    """A minimal failing set: it fails by itself, and no longer without any one of its members."""

    overrides: tuple[Override, ...]
    verdict: Verdict

    def __str__(self) -> str:
        return " with ".join(map(str, self.overrides))


@dataclass(frozen=True)
class Culprits:
    """What a bisection found. The sets share no member; with all of them off the check passes.

    `log` holds every trial in its order. `confidence` is the chance that no passing trial was luck:
    None where each was run once and nothing is known of it.
    """

    finding: Finding
    culprits: tuple[Culprit, ...]
    log: tuple[Trial, ...]
    confidence: float | None = None

    @property
    def sets(self) -> tuple[Overrides, ...]:
        """The guilty sets."""
        return tuple(frozenset(culprit.overrides) for culprit in self.culprits)

    @property
    def trials(self) -> int:
        """How many trials were run, the two controls not counted."""
        return sum(trial.purpose not in CONTROLS for trial in self.log)


def bisect(
    check: Check,
    overrides: Iterable[Override],
    *,
    suspects: Iterable[Override] = (),
    repeat: int = 1,
    on_trial: Callable[[Trial], object] = lambda trial: None,
) -> Culprits:
    """Find all disjoint minimal sets of `overrides` with which `check` fails.

    Args:
        check: Runs something with only the overrides that it is given.
        overrides: All that can be switched. Those of one family should stand together.
        suspects: Those that something else points at: tried first, together.
        repeat: How often a set is run before it passes, for faults that come and go.
        on_trial: Told of each trial when it is over.

    Raises:
        InvalidValue: There is nothing to switch, or `repeat` is not positive.
        InsufficientMemory, RunFailed: A trial ended without a verdict, twice.
        And what `check` raises: a cancelled trial is no verdict either.
    """
    listed = list(dict.fromkeys(overrides))
    if not listed or repeat < 1:
        what = "There is no operator to switch" if not listed else f"repeat={repeat} is too few"
        raise InvalidValue(f"{what}.", param="repeat" if listed else "overrides")
    bench = _Bench(check, repeat, on_trial)
    if not bench.run(listed, "everything on", whole=True).fails:
        return bench.concluded("passes")
    if bench.run([], "everything off", whole=True).fails:
        return bench.concluded("elsewhere")
    pointed = set(suspects)
    rest, found = listed, []
    while bench.fails(rest, "rest"):
        likely = [one for one in rest if one in pointed]
        if likely and bench.fails(likely, "suspects"):
            members = _minimal(bench, likely)
        else:
            members = _minimal(bench, rest)
        found.append(Culprit(tuple(members), bench.run(members, "alone", whole=True).verdict))
        rest = [one for one in rest if one not in members]
    return bench.concluded("found", found)


def _minimal(bench: _Bench, candidates: Sequence[Override]) -> list[Override]:
    """A minimal failing set among `candidates`, which fail."""
    found: list[Override] = []
    while not bench.fails(found, "alone"):
        # Here `found` passes, and `found` with all candidates fails.
        passing, failing = 0, len(candidates)
        while failing - passing > 1:
            middle = (passing + failing) // 2
            if bench.fails([*found, *candidates[:middle]], "search"):
                failing = middle
            else:
                passing = middle
        found.append(candidates[failing - 1])
        candidates = candidates[: failing - 1]
    for member in found:
        fewer = [one for one in found if one is not member]
        if bench.fails(fewer, "alone"):  # only where more overrides can heal, or luck was in play
            found = fewer
    return found


@dataclass
class _Bench:
    """Runs trials, never the same set twice, and keeps the log."""

    check: Check
    repeat: int
    on_trial: Callable[[Trial], object]
    log: list[Trial] = field(default_factory=list)
    known: dict[Overrides, Trial] = field(default_factory=dict)

    def fails(self, on: Sequence[Override], purpose: Purpose) -> bool:
        return self.run(on, purpose).fails

    def run(self, on: Sequence[Override], purpose: Purpose, *, whole: bool = False) -> Trial:
        """The trial of this set. Where it is not `whole`, it ends with the first run that fails."""
        only = frozenset(on)
        known = self.known.get(only)
        if known is not None and (known.runs == self.repeat or not whole):
            return known
        trial = self._tried(only, purpose, whole)
        self.known[only] = trial
        self.log.append(trial)
        self.on_trial(trial)
        return trial

    def concluded(self, finding: Finding, found: Sequence[Culprit] = ()) -> Culprits:
        return Culprits(finding, tuple(found), tuple(self.log), self._confidence(found))

    def _tried(self, only: Overrides, purpose: Purpose, whole: bool) -> Trial:
        begun = time.monotonic()
        seen: list[Verdict] = []
        while len(seen) < self.repeat and (whole or not seen or seen[-1].ok):
            seen.append(self._judged(only))
        bad = [verdict for verdict in seen if not verdict.ok]
        verdict = bad[0] if bad else seen[-1]
        if verdict.kind == "wrong" and len(bad) < len(seen):
            verdict = replace(verdict, kind="nondeterministic")
        return Trial(only, purpose, verdict, time.monotonic() - begun, len(seen), len(bad))

    def _judged(self, only: Overrides) -> Verdict:
        """A verdict, or an error after a second run without one."""
        for _ in range(2):
            verdict = self.check(only)
            if verdict.kind not in ("out_of_memory", "unsupported"):
                return verdict
        kind = InsufficientMemory if verdict.kind == "out_of_memory" else RunFailed
        raise kind(f"A trial ended without a verdict, twice: {verdict.reason}")

    def _confidence(self, found: Sequence[Culprit]) -> float | None:
        """The chance that nothing passed by luck, where the rarest fault fails as often as seen.

        How often a fault strikes is estimated by Laplace's rule of succession: (failed + 1) of
        (runs + 2).
        """
        if self.repeat == 1 or not found:
            return None
        alone = [self.known[frozenset(culprit.overrides)] for culprit in found]
        missed = max(1 - (trial.failed + 1) / (trial.runs + 2) for trial in alone)
        passed = sum(not trial.fails for trial in self.log if trial.purpose != "everything off")
        return float((1 - missed**self.repeat) ** passed)

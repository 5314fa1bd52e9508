"""A forward on a card with faults: what a user sees, what a tool says, and what quarantine does."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.faults import programs
from benchmarks.faults.base import CARD, LIMIT, Measured
from benchmarks.faults.lab import Faulty, Lab
from jumar.evidence import Evidence, Store, Verdict, quarantine
from jumar.lab.trials import STOPS, Checked, Limits, Trials

CLOSE = 1e-4
"""A float32 forward of a few operators, relative and absolute: the emulator's noise is below."""

LIMITS = Limits(prepare=60.0, work=LIMIT)


@dataclass(frozen=True)
class Patient:
    """A program on the card; `source` makes the children that it runs in."""

    case: Mapping[str, Any]
    lab: Lab
    source: Faulty

    @property
    def trials(self) -> Trials:
        """The program, judged by what the CPU computes."""
        wanted = programs.make(self.case["program"], "cpu")()
        return Trials(
            programs.make,
            [self.case["program"], CARD],
            CARD,
            lambda got: judged(got, wanted),
            LIMITS,
            self.source,  # type: ignore[arg-type]
        )

    def verdict(self, off: Sequence[str] = ()) -> Verdict:
        """How it ends with these operators computed by the reference."""
        trials = self.trials
        with trials.child() as child:
            return trials.verdict(child.call(sorted(off), deadline=LIMITS.work))


def judged(got: Sequence[Any], wanted: Sequence[Any]) -> Verdict:
    """Whether the card's answers are the CPU's."""
    import torch

    try:
        torch.testing.assert_close(list(got), list(wanted), rtol=CLOSE, atol=CLOSE, equal_nan=True)
    except AssertionError as error:
        return Verdict("wrong", str(error).splitlines()[0])
    return Verdict("correct")


def measure(case: Mapping[str, Any], lab: Lab) -> Measured:
    """One case. A row's fault is looked for by the one tool that it names."""
    tool, guilty = TOOLS[case["tool"]], set(case["guilty"])
    ill = Patient(case, lab, lab.with_faults(case["faults"]))
    well = Patient(case, lab, lab.with_faults([]))
    alarms = {one.subject.operator for one in tool(well)}
    seen = ill.verdict()
    begun = time.monotonic()
    records = tool(ill)
    seconds = time.monotonic() - begun
    found = {one.subject.operator for one in records}
    quarantined = served = None
    if records:
        off = _quarantined(records, lab.fingerprint)
        quarantined = bool(guilty) and guilty <= off
        served = _serves(ill, off)
    elif guilty:
        quarantined = served = False
    return Measured(
        seen=seen.kind,
        detected=_detected(case["tool"], records, seen),
        named=guilty <= found if guilty else None,
        quarantined=quarantined,
        served=served,
        alarms=tuple(sorted(alarms | found - guilty)),
        said="; ".join(dict.fromkeys(f"{one.subject.operator} {one.verdict}" for one in records)),
        seconds=seconds,
    )


def _detected(tool: str, records: Sequence[Evidence], seen: Verdict) -> str | None:
    if records:
        return tool
    return "watched child" if seen.kind in STOPS else None


def _quarantined(records: Sequence[Evidence], fingerprint: Mapping[str, str]) -> set[str]:
    with tempfile.TemporaryDirectory(prefix="jumar-") as folder:
        store = Store(folder)
        for one in records:
            store.add(one)
        rules = quarantine(store, fingerprint)
    return {one.operator for one in rules.subjects()}


def _serves(ill: Patient, off: set[str]) -> bool:
    """Whether the answer is right with these off; an operator that has no reference stays on."""
    from jumar.lab.trials import switchable

    return ill.verdict([one for one in off if switchable(one)]).kind == "correct"


# ---- the tools -----------------------------------------------------------------------------------


def shadow(patient: Patient) -> list[Evidence]:
    """Every operator of one forward beside the CPU's, in a watched child."""
    from jumar.lab.shadow.watched import judged as shadowed

    seen = shadowed(
        programs.make,
        [patient.case["program"], CARD],
        CARD,
        patient.source,  # type: ignore[arg-type]
        loading=LIMITS.prepare,
        silence=LIMITS.work,
    )
    return [one.evidence(patient.lab.fingerprint, time.time()) for one in seen.guilty]


def recorder(patient: Patient) -> list[Evidence]:
    """The flight recorder: what a program stopped in, until it comes to its end."""
    from jumar.lab.blame import investigate

    return investigate(patient.trials, fingerprint=patient.lab.fingerprint)


def bisect(patient: Patient) -> list[Evidence]:
    """From the failing forward to the smallest guilty set."""
    from jumar.lab.bisect import bisect as search
    from jumar.lab.blame import evidence

    trials = patient.trials
    known = trials.discovered()
    with Checked(trials, known.overrides, known.preparing) as check:
        found = search(check, known.overrides, suspects=known.suspects)
    fingerprint = patient.lab.fingerprint
    return evidence(found, known.calls, device=CARD, fingerprint=fingerprint)


def check(patient: Patient) -> list[Evidence]:
    """Each operator that the forward calls, by itself, on inputs that break kernels."""
    from jumar.lab.check import Summary, Target
    from jumar.lab.check.running import Done, Laboratory
    from jumar.lab.check.session import tasks

    case, lab = patient.case, patient.lab
    target = Target("device", CARD)
    laboratory = Laboratory(target, patient.source, limit=LIMIT)  # type: ignore[arg-type]
    done: list[Done] = []
    healthy = replace(patient, source=lab.with_faults([]))
    operators = sorted(healthy.trials.recorded().calls)
    work = tasks(operators, case.get("dtypes", ["float32"]), lab.samples)
    laboratory.run(work, workers=1, ended=done.append)
    findings = [one for task in done for one in task.findings.values()]
    return Summary(target, lab.fingerprint, findings).evidence([])


TOOLS: dict[str, Callable[[Patient], list[Evidence]]] = {
    "shadow": shadow,
    "recorder": recorder,
    "bisect": bisect,
    "check": check,
}

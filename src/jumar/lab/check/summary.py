"""What the findings say together: one verdict per subject, and what is kept as evidence."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from jumar.evidence import quarantine
from jumar.evidence.records import BAD, Evidence, Subject
from jumar.lab.check.base import SEVERITY, Finding, Target

FOUND_BY = "check"


@dataclass(frozen=True)
class Judgement:
    """A subject's verdict: that of its worst case, `finding`, of so many cases."""

    subject: Subject
    finding: Finding
    cases: int
    bad: int

    @property
    def kind(self) -> str:
        """The verdict."""
        return self.finding.verdict.kind


@dataclass(frozen=True)
class Summary:
    """A check as a whole. `refused` operators have no verdict, for the reason given; `not_run`
    says of an operator and dtype why cases were left out.
    """

    target: Target
    fingerprint: Mapping[str, str]
    findings: list[Finding]
    refused: dict[str, str] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0

    def judgements(self) -> list[Judgement]:
        """One per operator, shape class and dtype; the worst first."""
        groups: dict[Subject, list[Finding]] = {}
        for one in self.findings:
            groups.setdefault(self._subject(one), []).append(one)
        made = [
            Judgement(
                subject,
                min(group, key=lambda one: SEVERITY.index(one.verdict.kind)),
                len(group),
                sum(one.verdict.kind in BAD for one in group),
            )
            for subject, group in groups.items()
        ]
        return sorted(
            made, key=lambda one: (SEVERITY.index(one.finding.verdict.kind), str(one.subject))
        )

    def kinds(self) -> dict[str, int]:
        """How many cases ended in which verdict, the worst first."""
        counted = Counter(one.verdict.kind for one in self.findings)
        return {kind: counted[kind] for kind in SEVERITY if counted[kind]}

    @property
    def bad(self) -> bool:
        """Whether a defect was found."""
        return any(one.verdict.kind in BAD for one in self.findings)

    def evidence(self, known: Iterable[Evidence]) -> list[Evidence]:
        """The records to keep: each bad subject, and each that is correct again.

        A correct one is worth a file only where it lifts something: the newest record of its
        subject is a check's own and bad. What shadow or a search found in a real model is theirs
        to lift. All other correct ones stand in the check's folder.
        """
        bad_before = {
            rule.subject
            for rule in quarantine(known, self.fingerprint).rules
            if rule.found_by == FOUND_BY
        }
        now = time.time()
        return [
            self._record(one, now)
            for one in self.judgements()
            if one.kind in BAD or (one.kind == "correct" and one.subject in bad_before)
        ]

    def as_dict(self) -> dict[str, Any]:
        """JSON of it; cases that were correct are counted, not listed."""
        return {
            "provider": self.target.provider,
            "device": self.target.device,
            "fingerprint": dict(self.fingerprint),
            "operators": len({one.case.operator for one in self.findings}),
            "cases": len(self.findings),
            "verdicts": self.kinds(),
            "refused": self.refused,
            "not_run": self.not_run,
            "seconds": round(self.seconds, 1),
            "subjects": [
                {**one.subject.model_dump(), "verdict": one.kind, "cases": one.cases}
                for one in self.judgements()
            ],
            "findings": [one.as_dict() for one in self.findings if one.verdict.kind != "correct"],
        }

    def _subject(self, finding: Finding) -> Subject:
        case = finding.case
        return Subject(
            operator=case.operator,
            implementation=self.target.provider,
            shape_class=case.shape_class,
            dtype=case.dtype,
        )

    def _record(self, one: Judgement, at: float) -> Evidence:
        verdict, case = one.finding.verdict, one.finding.case
        return Evidence(
            subject=one.subject,
            fingerprint=dict(self.fingerprint),
            verdict=verdict.kind,
            reason=verdict.reason,
            numbers={**verdict.numbers, "cases": one.cases, "bad_cases": one.bad},
            shapes=[list(shape) for shape in case.shapes],
            found_by=FOUND_BY,
            reproducer=one.finding.script,
            at=at,
        )

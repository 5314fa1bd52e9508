"""Look at facts with every rule, and put each finding below the one that explains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.host.doctor.base import SEVERITIES, CannotLook, Finding, Lang, Purpose, Rule
from jumar.host.doctor.checks import CHECKS
from jumar.host.doctor.rules import rules
from jumar.host.product import has_npu

if TYPE_CHECKING:
    from jumar.host.facts import HostFacts

UNKNOWN_WHERE_EMPTY: Mapping[str, str] = {
    "user": "user",
    "system": "system.arch",
    "container": "container.inside",
    "container.mounts": "container.mounts",
    "python": "python.version",
    "npu_smi": "npu_smi.present",
}
"""Parts of `HostFacts` that say "not known" by a None, and where it stands."""


@dataclass(frozen=True)
class Unseen:
    """Something that could not be looked at, and the rules that had to be left out for it."""

    what: str
    why: str | None
    rules: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        return {"what": self.what, "why": self.why, "rules": list(self.rules)}


@dataclass(frozen=True)
class Diagnosis:
    """What the doctor has to say: root causes with their consequences, and what stayed dark."""

    findings: tuple[Finding, ...]
    unseen: tuple[Unseen, ...]
    looked: int
    """How many rules were looked at."""

    def worst(self) -> str | None:
        """The worst severity of all findings; None where there are none."""
        found = {finding.severity for finding in self.findings}
        return next((severity for severity in SEVERITIES if severity in found), None)

    def as_dict(self, lang: Lang) -> dict[str, Any]:
        return {
            "worst": self.worst(),
            "findings": [finding.as_dict(lang) for finding in self.findings],
            "not_looked_at": [gap.as_dict() for gap in self.unseen],
            "rules_looked_at": self.looked,
        }


def examine(
    facts: HostFacts, purpose: Purpose | None = None, log: Iterable[Finding] = ()
) -> Diagnosis:
    """Ask every rule that matters for `purpose` (None: the general ones only).

    Findings of a log (`doctor.logs.classify`) are put below the host's finding that explains them.
    """
    found: list[Finding] = []
    dark: dict[tuple[str, str | None], list[str]] = {}
    asked = [rule for rule in rules() if not rule.purposes or purpose in rule.purposes]
    for rule in asked:
        try:
            seen = look(rule, facts)
        except CannotLook as gap:
            dark.setdefault((gap.what, gap.why), []).append(rule.id)
        else:
            found += [Finding(rule, tuple(seen))] if seen else []
    gaps = [Unseen(what, why, tuple(ids)) for (what, why), ids in dark.items()]
    skipped = sum(len(gap.rules) for gap in gaps)
    lines = [Unseen(one.where, f"not understood: {one.line.strip()}", ()) for one in facts.unread]
    return Diagnosis(arrange([*found, *log]), (*gaps, *lines), len(asked) - skipped)


def look(rule: Rule, facts: HostFacts) -> list[Mapping[str, object]]:
    """The evidence for one rule, empty where it does not fire; raises CannotLook."""
    for need in rule.needs:
        ensure(facts, need)
    return list(CHECKS[rule.id](facts))


def ensure(facts: HostFacts, need: str) -> None:
    """Raise CannotLook where a part of the facts is not known."""
    if not facts.sees(need):
        parts = need.split(".")
        heads = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
        raise CannotLook(need, next(facts.unseen[head] for head in heads if head in facts.unseen))
    if need == "cards" and not facts.cards and has_npu(facts) and facts.npu_smi.error:
        raise CannotLook("npu-smi info", facts.npu_smi.error.text.strip())
    value: object = facts
    where = UNKNOWN_WHERE_EMPTY.get(need)
    for part in where.split(".") if where else ():
        value = getattr(value, part)
    if value is None:
        # "container.marks" tells why "container" is dark; what no part tells, the process lacks.
        parts_why = (why for part, why in facts.unseen.items() if part.startswith(f"{need}."))
        raise CannotLook(need, next(parts_why, facts.unseen.get("process")))


def arrange(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding below the first of its rule's `after` that was found too; roots worst first.

    ``after: ["*"]`` marks an echo: it goes below the first log text that is none and no less
    severe. Order among equals is kept: it is that of causes.
    """
    by_id = {finding.id: finding for finding in findings}
    parents = {
        id_: next((cause for cause in finding.rule.after if cause in by_id), None)
        for id_, finding in by_id.items()
    }
    for id_ in by_id:
        if parents[id_] is None and "*" in by_id[id_].rule.after:
            parents[id_] = first_sound(by_id[id_], by_id.values())

    def grow(id_: str) -> Finding:
        below = [grow(child) for child, parent in parents.items() if parent == id_]
        return Finding(by_id[id_].rule, by_id[id_].seen, tuple(below))

    roots = [grow(id_) for id_, parent in parents.items() if parent is None]
    return tuple(sorted(roots, key=lambda finding: SEVERITIES.index(finding.severity)))


def first_sound(echo: Finding, findings: Iterable[Finding]) -> str | None:
    """The first log finding that may be what an echo repeats."""
    worst = SEVERITIES.index(echo.rule.severity)
    for finding in findings:
        rule = finding.rule
        echoes = "*" in rule.after
        if rule.topic == "log" and not echoes and SEVERITIES.index(rule.severity) <= worst:
            return finding.id
    return None

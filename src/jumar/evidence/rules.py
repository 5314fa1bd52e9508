"""Quarantine is a query on evidence: what was found bad here, and not found good since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jumar.evidence.records import Evidence, Subject


@dataclass(frozen=True)
class Expired:
    """A rule that no longer holds, and what changed: name -> (then, now)."""

    evidence: Evidence
    changed: dict[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class Quarantine:
    """The rules in force on one fingerprint, each with its evidence; and those that expired."""

    rules: tuple[Evidence, ...] = ()
    expired: tuple[Expired, ...] = ()

    def deny(
        self, operator: str, implementation: str, *, shape_class: str = "*", dtype: str = "*"
    ) -> Evidence | None:
        """The evidence that forbids this, or None. `*` asks for any shape or dtype."""
        asked = Subject(
            operator=operator, implementation=implementation, shape_class=shape_class, dtype=dtype
        )
        return next((rule for rule in self.rules if _meets(rule.subject, asked)), None)

    def subjects(self) -> list[Subject]:
        """What stands in quarantine."""
        return [rule.subject for rule in self.rules]


def quarantine(records: Iterable[Evidence], fingerprint: Mapping[str, str]) -> Quarantine:
    """The rules that `records` make on a machine with this fingerprint.

    The newest record of a subject and fingerprint counts: a later "correct" lifts a rule. A bad one
    from another fingerprint of the same device class is listed as expired.
    """
    here, elsewhere = dict(fingerprint), []
    newest: dict[Subject, Evidence] = {}
    for record in sorted(records, key=lambda one: one.at):
        if record.fingerprint == here:
            newest[record.subject] = record
        elif record.bad and record.fingerprint.get("device_class") == here.get("device_class"):
            elsewhere.append(Expired(record, _changed(record.fingerprint, here)))
    return Quarantine(tuple(one for one in newest.values() if one.bad), tuple(elsewhere))


def _changed(
    then: Mapping[str, str], now: Mapping[str, str]
) -> dict[str, tuple[str | None, str | None]]:
    names = sorted({*then, *now})
    return {n: (then.get(n), now.get(n)) for n in names if then.get(n) != now.get(n)}


def _meets(rule: Subject, asked: Subject) -> bool:
    return (rule.operator, rule.implementation) == (asked.operator, asked.implementation) and all(
        "*" in (one, other) or one == other
        for one, other in ((rule.shape_class, asked.shape_class), (rule.dtype, asked.dtype))
    )

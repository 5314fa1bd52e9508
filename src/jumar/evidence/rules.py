"""Quarantine is a query on evidence: what was found bad here, and not found good since."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jumar.evidence.records import Evidence, Subject

UNRELATED = frozenset({"python", "transformers", "diffusers", "onnxruntime", "numpy"})
"""Entries of a fingerprint that no kernel depends on: another version of these ends no rule."""

OF_TORCH = frozenset({"device", "reference", "torch_npu"})
"""Implementations that no other provider's version changes."""

_OTHERS = frozenset({"flag_gems", "triton"})


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
    """The rules that `records` make on a machine with this fingerprint, but for what is UNRELATED,
    and the version of FlagGems where it is not FlagGems that is meant.

    The newest record of a subject and fingerprint counts: a later "correct" lifts a rule, what is
    neither that nor a defect says nothing. A bad one from another fingerprint of the same device
    class is listed as expired.
    """
    newest: dict[tuple[Subject, frozenset[tuple[str, str]]], Evidence] = {}
    telling = (one for one in records if one.bad or one.verdict == "correct")
    for record in sorted(telling, key=lambda one: one.at):
        there = _deciding(record.fingerprint, record.subject)
        newest[record.subject, frozenset(there.items())] = record
    rules, expired = [], []
    for record in newest.values():
        there = _deciding(record.fingerprint, record.subject)
        here = _deciding(fingerprint, record.subject)
        if record.bad and there == here:
            rules.append(record)
        elif record.bad and there.get("device_class") == here.get("device_class"):
            expired.append(Expired(record, _changed(there, here)))
    return Quarantine(tuple(rules), tuple(expired))


def _deciding(fingerprint: Mapping[str, str], subject: Subject) -> dict[str, str]:
    idle = UNRELATED | _OTHERS if subject.implementation in OF_TORCH else UNRELATED
    return {name: value for name, value in fingerprint.items() if name not in idle}


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

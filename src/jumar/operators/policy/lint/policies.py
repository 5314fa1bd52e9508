"""Jumar's own policies: names looked up, orders, and denials that do less than they seem to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from jumar.contracts.errors import InvalidValue
from jumar.operators.policy.base import REFERENCE, Layer, Rule
from jumar.operators.policy.conditions import all_hold
from jumar.operators.policy.decide import names_of
from jumar.operators.policy.lint.base import Finding
from jumar.operators.policy.lint.names import CALLED, PROVIDER, still_called

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue

Spoken = list[tuple[Rule, frozenset[str]]]
"""Rules with the operators that they speak of."""


def check(layer: Layer, catalogue: Catalogue) -> Iterator[Finding]:
    """All rules of a file, against a catalogue."""
    spoken: Spoken = []
    for rule in layer.rules:
        try:
            names = names_of(rule, catalogue)
        except InvalidValue as error:
            message = error.message.removeprefix(f"{rule.origin}: ")
            yield _finding("unknown-name", rule, message, fix=error.hint or "")
            continue
        spoken.append((rule, frozenset(catalogue.operators) if names is None else names))
    told = {one.provider for one in catalogue.implementations if one.key != "layer"}
    for rule, _ in spoken:
        yield from _of_rule(rule, layer, told, catalogue)
    yield from _unproven(spoken, told)
    denials = [(rule, names) for rule, names in spoken if rule.key == "deny"]
    yield from _duplicates(spoken)
    yield from _partial(denials, catalogue)
    yield from _reentering(denials, catalogue)


def _of_rule(rule: Rule, layer: Layer, told: set[str], catalogue: Catalogue) -> Iterator[Finding]:
    strict = layer.strict is not None and layer.strict.on
    if rule.key == "order":
        if REFERENCE not in rule.providers and not strict:
            yield _finding("no-fallback", rule, "leaves the reference out", fix="add reference")
        return
    if not rule.because and not rule.sources:
        yield _finding("no-source", rule, "has neither because nor source")
    # A rule for other versions than the catalogue's says nothing about these.
    if all_hold(rule.when, catalogue.versions) is False:
        return
    for provider in rule.providers:
        for part in _parts(rule, catalogue) if provider in told else ():
            if not catalogue.implementing(part.members, provider):
                message = f"{provider} has no implementation of {part.name}"
                yield _finding("dead-entry", rule, message, fix=f"remove {part.name}")


class _Part(NamedTuple):
    name: str
    members: list[str]


def _parts(rule: Rule, catalogue: Catalogue) -> Iterator[_Part]:
    """What a rule names, one by one."""
    for name in rule.operators:
        yield _Part(name, [catalogue.operator(name).name])
    for family in rule.families:
        yield _Part(family, [one.name for one in catalogue.family(family)])


def _unproven(spoken: Spoken, told: set[str]) -> Iterator[Finding]:
    """Providers whose implementations of torch's operators this catalogue does not list."""
    first: dict[str, Rule] = {}
    for rule, _ in spoken:
        for provider in rule.providers if rule.key != "order" else ():
            if provider not in (*told, "device", REFERENCE):
                first.setdefault(provider, rule)
    for provider, rule in first.items():
        message = f"this catalogue does not list what {provider} has: nothing is proven of it"
        yield _finding("unproven", rule, message, fix="name a catalogue that does")


def _duplicates(spoken: Spoken) -> Iterator[Finding]:
    first: dict[object, Rule] = {}
    for rule, names in spoken:
        about = (rule.key, names, rule.when, rule.providers if rule.key == "deny" else ())
        if about in first:
            yield _finding("duplicate", rule, f"line {first[about].origin.line} says it already")
        first.setdefault(about, rule)


def _partial(denials: Spoken, catalogue: Catalogue) -> Iterator[Finding]:
    for rule, names in denials:
        if not rule.operators:
            continue
        for provider in rule.providers:
            off = _denied(denials, provider)
            families = {catalogue.operators[name].family for name in names}
            members = {one.name for family in families for one in catalogue.family(family)}
            computed = {one.operator for one in catalogue.implementing(members - off, provider)}
            if computed:
                left = ", ".join(sorted(computed))
                fix = f"write families: [{', '.join(sorted(families))}]"
                yield _finding("partial-cover", rule, f"{provider} goes on computing {left}",
                               fix=fix)  # fmt: skip


def _reentering(denials: Spoken, catalogue: Catalogue) -> Iterator[Finding]:
    off = _denied(denials, PROVIDER)
    computed = {one.operator for one in catalogue.implementing(sorted(off), PROVIDER)}
    known = catalogue.with_reentries(sorted(computed))
    for rule, names in denials:
        about = sorted(names & computed) if PROVIDER in rule.providers else []
        for how, left in still_called(about, lambda one: one.operator in off, known):
            called = sorted({one.operator for one in left})
            message, fix = CALLED[how].format(", ".join(called)), f"deny {', '.join(called)} too"
            found = _finding("re-enters", rule, message, fix=fix)
            yield found if how == "run" else replace(found, severity_here="note")


def _denied(denials: Spoken, provider: str) -> set[str]:
    return {name for rule, names in denials if provider in rule.providers for name in names}


def _finding(code: str, rule: Rule, message: str, *, fix: str = "") -> Finding:
    entry = f"{rule.key} {', '.join([*rule.operators, *rule.families]) or 'everything'}"
    return Finding(code, rule.origin.place, rule.origin.line, entry, message, (), fix)

"""All that a catalogue knows of one operator, as plain data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jumar.operators.catalogue.base import Catalogue, Implementation, Operator, Reentry


@dataclass(frozen=True)
class Exclusion:
    """What a provider's own list has to say so that the provider leaves an operator alone.

    `functions` are the entries, `also` the other operators that they take along, `left` the
    implementations of the same family that stay, and `unused` the vendors for which the provider
    leaves one of the functions out by itself.
    """

    provider: str
    functions: tuple[str, ...]
    also: tuple[str, ...]
    left: tuple[Implementation, ...]
    unused: tuple[str, ...]


@dataclass(frozen=True)
class Description:
    """An operator, its family, who implements it, what it calls and what calls it.

    `calls` is None where that is not known.
    """

    operator: Operator
    family: tuple[Operator, ...]
    implementations: tuple[Implementation, ...]
    exclusions: tuple[Exclusion, ...]
    calls: tuple[Reentry, ...] | None
    callers: tuple[str, ...]


def describe(catalogue: Catalogue, operator: Operator) -> Description:
    """Everything about one operator; what it calls may take seconds to find out."""
    implementations = catalogue.implementing([operator.name])
    named = {one.provider for one in implementations if one.function and one.key != "layer"}
    return Description(
        operator,
        catalogue.family(operator.name),
        implementations,
        tuple(exclusion(catalogue, [operator], provider) for provider in sorted(named)),
        catalogue.reenters(operator.name) if operator.kind in ("aten", "library") else (),
        catalogue.callers(operator.name),
    )


def exclusion(catalogue: Catalogue, operators: Iterable[Operator], provider: str) -> Exclusion:
    """The entries of a provider's list that cover these operators, and what they do not cover."""
    wanted = {one.name: one for one in operators}
    functions = {one.function for one in catalogue.implementing(wanted, provider)}
    by_function = catalogue.functions(provider)
    covered = {one.operator for function in functions for one in by_function[function]}
    kin = {one.name for operator in wanted for one in catalogue.family(operator)}
    unused = {
        vendor
        for vendor, names in catalogue.unused.get(provider, {}).items()
        if functions.intersection(names)
    }
    return Exclusion(
        provider,
        tuple(sorted(functions)),
        tuple(sorted(covered - wanted.keys())),
        catalogue.implementing(sorted(kin - covered), provider),
        tuple(sorted(unused)),
    )

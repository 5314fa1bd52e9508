"""`jumar operators list|show|record`: what operators are called, and by whom they are computed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli import show
from jumar.cli.operators.policy import catalogue_option
from jumar.contracts.errors import InvalidValue, did_you_mean

if TYPE_CHECKING:
    from jumar.operators.catalogue import Catalogue, Implementation, Operator
    from jumar.operators.catalogue.describe import Description

KNOWN_BY = {
    "run": "seen while it ran on the CPU",
    "decomposition": "in torch's decomposition of it, which some backends use",
}

KINDS = {
    "aten": "an operator of torch",
    "library": "an operator of a library, in torch's dispatcher",
    "layer": "an operator of whole layers",
    "ir": "an operator of vLLM's intermediate representation",
}


@click.command()
@click.argument("pattern", required=False)
@click.option("--provider", metavar="NAME", help="Only operators that NAME implements.")
@click.option("--family", metavar="NAME", help="Only one family: add, add_ and their overloads.")
@click.option("--key", metavar="KEY", help="Only with a kernel for this dispatch key: PrivateUse1.")
@catalogue_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def list_command(
    pattern: str | None,
    provider: str | None,
    family: str | None,
    key: str | None,
    catalogues: Sequence[str],
    as_json: bool,
) -> None:
    """List operators: all, or those whose names fit PATTERN (`*norm*`, or a part of the name).

    COMPOSITE says that torch makes the operator of others wherever there is no kernel for it.
    """
    catalogue = _known(catalogues)
    _check(provider, catalogue.providers, "provider")
    _check(family, {one.family for one in catalogue.operators.values()}, "family")
    _check(key, {key for one in catalogue.operators.values() for key in one.keys}, "key")
    chosen = [
        one
        for one in catalogue.operators.values()
        if (pattern is None or _fits(one.name, pattern))
        and family in (None, one.family)
        and (key is None or key in one.keys)
        and (provider is None or catalogue.implementing([one.name], provider))
    ]
    if as_json:
        rows = [_row(catalogue, one) for one in chosen]
        show.as_json({"versions": dict(catalogue.versions), "operators": rows})
        return
    if not chosen:
        alone = not any(one.keys for one in catalogue.operators.values())
        join = " These catalogues have functions only: add --catalogue live." if alone else ""
        click.echo(f"No operator fits.{join}", err=True)
        return
    _table(catalogue, chosen)
    said = ", ".join(f"{name} {version}" for name, version in catalogue.versions.items())
    click.secho(f"{len(chosen)} operators of {said}", dim=True, err=True)
    if dangling := catalogue.dangling:
        names = _listed([one.operator for one in dangling])
        click.secho(f"registered, but no operator of this torch: {names}", fg="yellow", err=True)


@click.command("show")
@click.argument("operator", metavar="OP")
@catalogue_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def show_command(operator: str, catalogues: Sequence[str], as_json: bool) -> None:
    """Explain one operator, or all that a name may mean.

    Its family, who implements it, what it calls, and what lists of others have to say to leave it
    out.
    """
    from jumar.operators.catalogue.describe import describe

    catalogue = _known(catalogues)
    found = catalogue.named(operator)
    if not found:
        raise catalogue.unknown(operator)
    if len(found.operators) == 1:
        described = describe(catalogue, found.operators[0])
        if as_json:
            show.as_json(_data(described))
        else:
            _explain(described, catalogue)
        return
    if as_json:
        rows = [_row(catalogue, one) for one in found.operators]
        show.as_json({"operators": rows, "functions": [vars(one) for one in found.functions]})
        return
    if found.operators:
        click.secho(f"Operators named {operator}", bold=True)
        _table(catalogue, found.operators)
    if found.functions:
        click.secho(f"Functions named {operator}", bold=True)
        _functions(found.functions)


@click.command()
@click.argument("out", metavar="FILE", type=click.Path(path_type=Path))
@click.option(
    "--package", "packages", multiple=True, metavar="FOLDER", type=click.Path(path_type=Path),
    help="Read flag_gems or vllm from its unpacked FOLDER, not as installed.",
)  # fmt: skip
@click.option("--calls", is_flag=True, help="Find out what each operator calls (takes minutes).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def record(out: Path, packages: Sequence[Path], calls: bool, as_json: bool) -> None:
    """Record the names of what is installed here, for --catalogue elsewhere.

    FILE is JSON; compressed where its name ends in .gz.
    """
    from jumar.operators.catalogue import live, write

    catalogue = live(packages)
    if calls:
        catalogue = catalogue.with_reentries(catalogue.operators)
    write(catalogue, out)
    counts = {"operators": len(catalogue.operators), "functions": len(catalogue.implementations)}
    if as_json:
        show.as_json({"path": str(out), "versions": dict(catalogue.versions), **counts})
        return
    click.echo(f"{out}  {counts['operators']} operators, {counts['functions']} implementations")
    show.columns([(name, version) for name, version in catalogue.versions.items()])


def _known(catalogues: Sequence[str]) -> Catalogue:
    from jumar.operators.catalogue import opened
    from jumar.operators.policy.layers import with_layers

    return with_layers(opened(catalogues), usable_only=False)


def _check(value: str | None, known: Collection[str], param: str) -> None:
    if value is not None and value not in known:
        hint = did_you_mean(value, known)
        raise InvalidValue(f"There is no {param} {value!r}.", hint=hint, param=param)


def _fits(name: str, pattern: str) -> bool:
    if not any(sign in pattern for sign in "*?["):
        return pattern in name
    return fnmatchcase(name, pattern) or fnmatchcase(name, f"*::{pattern}")


def _row(catalogue: Catalogue, operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "kind": operator.kind,
        "family": operator.family,
        "composite": operator.composite,
        "keys": list(operator.keys),
        "implementations": [vars(one) for one in catalogue.implementing([operator.name])],
    }


def _table(catalogue: Catalogue, operators: Sequence[Operator]) -> None:
    rows = [("OPERATOR", "FAMILY", "COMPOSITE", "IMPLEMENTED BY")]
    rows += [
        (one.name, one.family, "yes" if one.composite else "", _providers(catalogue, one.name))
        for one in operators
    ]
    show.columns(rows, dim=lambda row: row is rows[0], indent=0)


def _providers(catalogue: Catalogue, name: str) -> str:
    found = catalogue.implementing([name])
    return ", ".join(dict.fromkeys(f"{one.provider} {one.function}".strip() for one in found))


def _functions(implementations: Sequence[Implementation]) -> None:
    rows = []
    for one in implementations:
        condition = f"  if {one.condition}" if one.condition else ""
        rows.append((one.provider, one.function, one.operator, one.key, one.origin + condition))
    show.columns(rows)


def _explain(told: Description, catalogue: Catalogue) -> None:
    operator = told.operator
    click.secho(operator.name, bold=True, nl=False)
    click.echo(f"  {KINDS[operator.kind]}, of the family {operator.family}")
    if operator.schema:
        click.echo(operator.schema)
    for heading, lines in (
        ("Kernels", [" ".join(operator.keys)] if operator.keys else []),
        ("Without a kernel of its own", list(_otherwise(operator))),
        ("Calls", list(_calls(told))),
        ("Called by", [_listed(told.callers)] if told.callers else []),
        ("To leave it out", list(_exclusions(told))),
    ):
        _section(heading, lines)
    if told.implementations:
        click.secho("\nImplementations", bold=True)
        _functions(told.implementations)
    others = [one for one in told.family if one != operator]
    if others:
        click.secho("\nThe rest of the family", bold=True)
        show.columns([(one.name, _providers(catalogue, one.name)) for one in others])


def _section(heading: str, lines: Sequence[str]) -> None:
    if lines:
        click.secho(f"\n{heading}", bold=True)
        for line in lines:
            click.echo(f"  {line}")


def _otherwise(operator: Operator) -> Iterator[str]:
    if not operator.keys:
        return
    kernel = operator.kernel_for("")
    said = {
        None: "a backend cannot run it",
        "CompositeImplicitAutograd": "it is made of others (composite), which are overridden apart",
    }
    yield said.get(kernel, f"it is made of others by torch's {kernel} kernel")


def _calls(told: Description) -> Iterator[str]:
    if told.calls is None:
        yield "not known: it could not be run on the tensors that were tried, or is not known here"
    for known_by, meaning in KNOWN_BY.items():
        names = [one.operator for one in told.calls or () if one.known_by == known_by]
        if names:
            yield f"{_listed(names)}  ({meaning})"


def _exclusions(told: Description) -> Iterator[str]:
    for one in told.exclusions:
        yield f"{one.provider}: {', '.join(one.functions)}"
        if one.also:
            yield f"  leaves out as well: {_listed(one.also)}"
        if one.left:
            kept = [f"{other.operator} ({other.function})" for other in one.left]
            yield f"  stays in: {_listed(kept)}"
        if one.unused:
            yield f"  {one.provider} leaves it out by itself on {', '.join(one.unused)}"


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _data(told: Description) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": told.operator.name,
        "kind": told.operator.kind,
        "composite": told.operator.composite,
        **asdict(told.operator),
        "members": [one.name for one in told.family],
        "implementations": [asdict(one) for one in told.implementations],
        "exclusions": [asdict(one) for one in told.exclusions],
        "calls": None if told.calls is None else [asdict(one) for one in told.calls],
        "callers": list(told.callers),
    }

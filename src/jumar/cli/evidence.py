"""`jumar evidence list|show`, `jumar quarantine list|export|lift`: what is known of operators."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.table import print_table

if TYPE_CHECKING:
    from jumar.evidence import Evidence, Quarantine, Store

_json = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
_store = click.option(
    "--store", metavar="FOLDER", help="Evidence of elsewhere.  [default: JUMAR_EVIDENCE, or yours]"
)
_device = click.option(
    "--device", "-d", metavar="DEVICE", help="Only this kind of device.  [default: all that work]"
)


@click.command()
@click.option("--op", metavar="OP", help="Only this operator.")
@click.option("--bad", is_flag=True, help="Only defects.")
@_store
@_json
def list_evidence(op: str | None, bad: bool, store: str | None, as_json: bool) -> None:
    """List what was found out about operators, oldest first."""
    records = [
        one
        for one in _open(store)
        if (op is None or one.subject.operator in (op, f"aten::{op}")) and (one.bad or not bad)
    ]
    if as_json:
        _print_json([_data(one) for one in records])
        return
    if not records:
        click.echo("There is no such evidence.")
        return
    print_table(
        [(*_row(one), one.fingerprint.get("device_class", "?"), one.reason) for one in records],
        headings=(*_HEADINGS, "DEVICE", "WHY"),
        right="5",
    )


@click.command()
@click.argument("identity", metavar="ID")
@click.option("--script", is_flag=True, help="Print only the script that shows it.")
@_store
@_json
def show_evidence(identity: str, script: bool, store: str | None, as_json: bool) -> None:
    """Show one record; ID may be shortened."""
    from jumar.contracts.errors import InvalidInput

    record = _open(store).get(identity)
    if script:
        if record.reproducer is None:
            raise InvalidInput(f"{record.id} has no script.", param="script")
        click.echo(record.reproducer, nl=False)
    elif as_json:
        _print_json(_data(record))
    else:
        _print_record(record)


@click.command()
@_device
@_store
@_json
def list_quarantine(device: str | None, store: str | None, as_json: bool) -> None:
    """List the rules in force on the devices of this machine, and those that expired.

    A rule holds for the fingerprint on which its evidence was found: another driver, CANN or torch
    ends it.
    """
    records = list(_open(store))
    found = {kind: _rules(records, known) for kind, known in _fingerprints(device).items()}
    if as_json:
        _print_json({kind: _quarantine_data(rules) for kind, rules in found.items()})
        return
    for kind, rules in found.items():
        _print_quarantine(kind, rules)


@click.command()
@click.option(
    "--to",
    "form",
    required=True,
    type=click.Choice(["jumar", "vllm-plugin-fl", "flag-gems"]),
    help="Whose list.",
)
@click.option("--device", "-d", default="npu", show_default=True, metavar="DEVICE")
@_store
def export(form: Any, device: str, store: str | None) -> None:
    """Print the rules in force as a deny list of Jumar or of others."""
    from jumar.operators.catalogue import opened
    from jumar.operators.policy.convert import deny_lists

    (known,) = _fingerprints(device).values()
    subjects = _rules(_open(store), known).subjects()
    click.echo(deny_lists(subjects, opened(()), to=form).text, nl=False)


@click.command()
@click.argument("identity", metavar="ID")
@click.option("--because", required=True, metavar="TEXT", help="Why it is safe again.")
@click.option("--by", metavar="NAME", help="Who says so.  [default: the user]")
@_store
def lift(identity: str, because: str, by: str | None, store: str | None) -> None:
    """End a rule by hand. That is evidence too, with who and why; a later defect outweighs it."""
    import getpass
    import time

    from jumar.contracts.errors import InvalidInput, InvalidValue

    kept = _open(store)
    record = kept.get(identity)
    if not because.strip():
        raise InvalidValue("A rule is not lifted without a reason.", param="because")
    if record not in _rules(kept, record.fingerprint).rules:
        raise InvalidInput(
            f"{record.id} is no rule in force.", hint="See: jumar quarantine list", param="id"
        )
    lifted = record.model_copy(
        update={
            "verdict": "correct",
            "reason": f"Lifted by {by or getpass.getuser()}: {because.strip()}",
            "numbers": {"lifts": record.id},
            "found_by": "hand",
            "reproducer": None,
            "at": time.time(),
        }
    )
    kept.add(lifted)
    click.echo(f"{record.subject} is out of quarantine ({lifted.id}).")


_HEADINGS = ("ID", "OPERATOR", "BY", "DTYPE", "SHAPES", "AGE", "IS")


def _row(one: Evidence) -> tuple[str, ...]:
    subject = one.subject
    return (
        one.id,
        subject.operator,
        subject.implementation,
        subject.dtype,
        subject.shape_class,
        _age(one.at),
        one.verdict,
    )


def _print_record(record: Evidence) -> None:
    facts = {
        "id": record.id,
        "subject": str(record.subject),
        "is": f"{record.verdict}: {record.reason}",
        "layer": record.layer,
        "shapes": " ".join("x".join(map(str, one)) or "scalar" for one in record.shapes),
        "found by": f"{record.found_by}, {_age(record.at)} ago",
        **{f"  {name}": str(value) for name, value in record.numbers.items()},
        "on": ", ".join(f"{name} {value}" for name, value in record.fingerprint.items()),
        "script": f"jumar evidence show {record.id} --script" if record.reproducer else None,
    }
    print_table([(name, value) for name, value in facts.items() if value])


def _print_quarantine(kind: str, rules: Quarantine) -> None:
    click.secho(f"{kind}: {len(rules.rules)} in quarantine", bold=True)
    if rules.rules:
        print_table(
            [(*_row(one), one.reason) for one in rules.rules],
            headings=(*_HEADINGS, "WHY"),
            right="5",
        )
    if rules.expired:
        click.secho(f"{kind}: {len(rules.expired)} expired", dim=True)
        print_table([(*_row(one.evidence), _changes(one.changed)) for one in rules.expired])


def _changes(changed: dict[str, tuple[str | None, str | None]]) -> str:
    return ", ".join(f"{name} {then} -> {now}" for name, (then, now) in changed.items())


def _quarantine_data(rules: Quarantine) -> dict[str, Any]:
    return {
        "rules": [_data(one) for one in rules.rules],
        "expired": [{**_data(one.evidence), "changed": one.changed} for one in rules.expired],
    }


def _rules(records: Iterable[Evidence], fingerprint: dict[str, str]) -> Quarantine:
    from jumar.evidence import quarantine

    return quarantine(records, fingerprint)


def _fingerprints(device: str | None) -> dict[str, dict[str, str]]:
    """By kind of device: what evidence about it belongs to."""
    from jumar.cli.bisect.model import fingerprint
    from jumar.devices import accelerators, place

    if device is not None:
        label = place(device).device.label
        return {label.partition(":")[0]: fingerprint(label)}
    working = [one.kind for one in accelerators().values() if one.unavailable() is None]
    return {kind: fingerprint(kind) for kind in working if kind != "remote"}


def _open(store: str | None) -> Store:
    from jumar.evidence import Store

    return Store(None if store is None else Path(store))


def _age(at: float) -> str:
    import time

    seconds = max(time.time() - at, 0)
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {name}"
    return f"{seconds:.0f} s"


def _data(record: Evidence) -> dict[str, Any]:
    return {"id": record.id, **record.model_dump()}


def _print_json(value: Any) -> None:
    from jumar.cli import show

    show.as_json(value)

"""`jumar vllm status|patches`: what vLLM runs on here and why, and what is changed in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from jumar.cli import show
from jumar.cli.table import print_table
from jumar.contracts.errors import DependencyMissing

if TYPE_CHECKING:
    from jumar.vllm.patches import Row

UNFIT = 1
"""Exit code where a patch does not fit the vLLM that is installed."""

_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")


@click.command(epilog="Which cards: ASCEND_RT_VISIBLE_DEVICES. Which device: JUMAR_VLLM_DEVICE.")
@_JSON
def status(*, as_json: bool) -> None:
    """Say whether vLLM runs on Jumar's platform here, and why; then on what."""
    _quiet()
    from jumar.vllm.activation import current
    from jumar.vllm.status import status as look

    found = look()
    if as_json:
        show.as_json(found)
    else:
        print_table(_rows(found))
    if (error := current().error) is not None:
        raise error


def _quiet() -> None:
    """vLLM logs to stdout, where the answer goes."""
    os.environ["VLLM_LOGGING_STREAM"] = "ext://sys.stderr"
    os.environ.setdefault("VLLM_LOGGING_LEVEL", "WARNING")


def _rows(found: dict[str, Any]) -> list[tuple[str, str]]:
    vllm = found["vllm"]
    rows = [
        ("active", "yes" if found["active"] else "no"),
        ("because", found["reason"]),
        ("vLLM", vllm["warning"] or f"{vllm['version']}, tested"),
    ]
    if "platform" in found:
        rows.append(("vLLM takes", found["platform"]))
    if "device" not in found:
        return rows
    rows += [("device", one) for one in found["device"]["devices"]]
    rows.append(("class", found["device"]["class"]))
    rows.append(("attention", found["attention_backend"]))
    rows += [(f"patch {one['name']}", one["state"]) for one in found["patches"]]
    rows += [
        (name, f"{one['implementation']} ({one['why']})")
        for name, one in found["operators"].items()
    ]
    return rows


@click.command()
@_JSON
def patches(*, as_json: bool) -> int:
    """List what is changed in vLLM and torch, why, and whether it fits what is installed.

    Exit code 1 where one does not fit; then no engine starts.
    """
    _quiet()
    from jumar.vllm import patches as manifest
    from jumar.vllm.versions import installed

    if installed() is None:
        raise DependencyMissing("vLLM is not installed.", hint="Beside vLLM: pip install jumar")
    rows = manifest.examine(None)
    if as_json:
        show.as_json([_fields(row) for row in rows])
    else:
        for row in rows:
            _print(row)
    return UNFIT if any(row.problem for row in rows) else 0


def _fields(row: Row) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(row.patch), "state": row.state, "fits": row.problem is None}


def _print(row: Row) -> None:
    patch = row.patch
    click.secho(f"{patch.name}: {row.state}", fg="red" if row.problem else None, bold=True)
    for heading, text in (
        ("target", patch.target),
        ("where", f"each {patch.where} of vLLM, on {' and '.join(patch.devices)}"),
        ("vLLM", patch.versions),
        ("why", patch.why),
        ("how", patch.how),
        ("until", patch.until),
    ):
        click.echo(f"  {heading.ljust(7)}{text}")

"""`jumar devices`: what can compute here, what cannot and why, which number means which chip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jumar.cli.host import unseen_lines
from jumar.cli.table import print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jumar.host.accelerators import Accelerator
    from jumar.host.facts import HostFacts
    from jumar.host.visibility import Visibility

_COLOURS = {"free": "green", "in use": "yellow", "not usable": "red", "unknown": "magenta"}
_SPACES = (
    ("NPU id", "npu_id", "the first column of npu-smi, and its -i"),
    ("chip", "chip_id", "the chip within the NPU, npu-smi's -c"),
    ("/dev/davinci", "phy_id", "docker --device, ASCEND_VISIBLE_DEVICES"),
    ("logical id", "logic_id", "ASCEND_RT_VISIBLE_DEVICES"),
    ("process", "process_index", "torch and --device npu:N"),
)
"""Heading, name in `Accelerator.ids`, and where that number is used."""


@click.command(epilog="What is wrong with one: jumar doctor")
@click.option("--host", metavar="FILE", help="A recorded machine in place of this one.")
@click.option("--explain", is_flag=True, help="Say which number is used where, and every reason.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(host: str | None, explain: bool, as_json: bool) -> None:
    """List the devices: usable or not and why, free memory, who holds them.

    A card counts as in use by the memory that is taken, whatever the list of processes says.
    """
    from jumar.host.accelerators import accelerators, visible_chips
    from jumar.host.read import open_host

    facts = open_host(host, deep=False)
    devices, visible = accelerators(facts), visible_chips(facts)
    if as_json:
        _print_json(facts, devices, visible)
        return
    _print_devices(devices)
    _print_spaces(devices, explain=explain)
    _print_notes(facts, devices, visible, explain=explain)


def _print_json(facts: HostFacts, devices: Sequence[Accelerator], visible: Visibility) -> None:
    import json
    from dataclasses import asdict

    data: dict[str, Any] = {
        "host": facts.source,
        "devices": [asdict(device) for device in devices],
        "visibility": asdict(visible),
        "unseen": dict(facts.unseen),
    }
    click.echo(json.dumps(data, indent=2, ensure_ascii=False))


def _print_devices(devices: Sequence[Accelerator]) -> None:
    from rich.text import Text

    rows = [
        (
            Text(_label(device), style="bold"),
            Text(device.name),
            Text(device.status, style=_COLOURS[device.status]),
            _gib(device.free_mb),
            _gib(device.total_mb),
            Text("; ".join([*device.reasons, *device.held_by])),
        )
        for device in devices
    ]
    headings = ("DEVICE", "NAME", "STATUS", "FREE", "OF", "WHY, OR HELD BY")
    print_table(rows, headings=headings, right="3 4")


def _label(device: Accelerator) -> str:
    """What torch calls it, else the first number known, with the space that it belongs to."""
    if device.label is not None:
        return device.label
    chip = f" chip {device.ids['chip_id']}" if device.ids.get("chip_id") else ""
    for key, form in (("npu_id", "NPU {}"), ("phy_id", "davinci{}"), ("index", "GPU {}")):
        if device.ids.get(key) is not None:
            return f"({form.format(device.ids[key])}{chip})"
    return f"({device.kind})"


def _gib(size_mb: int | None) -> str:
    return "?" if size_mb is None else f"{size_mb / 1024:.1f} GiB"


def _print_spaces(devices: Sequence[Accelerator], *, explain: bool) -> None:
    npus = [device for device in devices if device.kind == "npu"]
    if not npus:
        return
    click.secho("\nOne chip, many numbers", bold=True)
    rows = [[device.ids.get(key) for _, key, _ in _SPACES] for device in npus]
    print_table(
        [["?" if number is None else str(number) for number in row] for row in rows],
        headings=[heading for heading, _, _ in _SPACES],
        right=" ".join(str(column) for column in range(len(_SPACES))),
    )
    if explain:
        for heading, _, use in _SPACES:
            click.echo(f"  {heading.ljust(12)}  {use}")


def _print_notes(
    facts: HostFacts, devices: Sequence[Accelerator], visible: Visibility, *, explain: bool
) -> None:
    for problem in visible.problems:
        click.secho(f"warning: {problem.says}", fg="yellow", err=True)
    for warning in facts.npu_smi.warnings:
        click.secho(f"npu-smi: {warning}", fg="yellow", err=True)
    if facts.npu_smi.error is not None and facts.nodes:
        click.secho(f"npu-smi: {facts.npu_smi.error.text}", fg="yellow", err=True)
    for unread in facts.unread:
        click.secho(f"not understood ({unread.where}): {unread.line}", fg="yellow", err=True)
    if not explain:
        return
    for device in devices:
        for remark in device.remarks:
            click.echo(f"{_label(device)}: {remark}")
    for line in unseen_lines(facts):
        click.secho(line, dim=True)

"""`jumar host`: show what a machine has, or record it for somebody else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.table import print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jumar.host.facts import HostFacts


@click.group()
def command() -> None:
    """Show what this machine has, or record it (`host snapshot`) for --host elsewhere."""


@command.command()
@click.option("--host", metavar="FILE", help="A recorded machine in place of this one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def show(host: str | None, as_json: bool) -> None:
    """Show what is known of a machine, and what could not be looked at."""
    from jumar.host.read import open_host

    facts = open_host(host)
    if as_json:
        import json

        click.echo(json.dumps(facts.to_dict(), indent=2, ensure_ascii=False))
        return
    _print(facts)


@command.command()
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--host", metavar="FILE", help="Clean a record that was packed by hand.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def snapshot(out: Path, host: str | None, as_json: bool) -> None:
    """Record this machine into OUT (a .tar.gz), without secrets, addresses and serial numbers."""
    from jumar.host import snapshot as record
    from jumar.host.source import open_source

    facts, removed = record.snapshot(open_source(host), out)
    if as_json:
        import json

        data = {"path": str(out), "removed": dict(removed), "unseen": dict(facts.unseen)}
        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
        return
    click.echo(f"{out}  {out.stat().st_size} bytes")
    told = ", ".join(f"{count} x {kind}" for kind, count in removed.items())
    click.echo(f"removed: {told or 'nothing had to be'}")
    for line in unseen_lines(facts):
        click.secho(line, fg="yellow")
    click.echo("Look through it before you send it: tar -xzOf FILE | less")


def _print(facts: HostFacts) -> None:
    from rich.text import Text

    print_table([(Text(name, style="bold"), Text(text)) for name, text in _rows(facts)])
    for line in facts.unread:
        click.secho(f"not understood ({line.where}): {line.line}", fg="yellow")
    for text in unseen_lines(facts):
        click.secho(text, fg="yellow")


def unseen_lines(facts: HostFacts) -> Iterator[str]:
    """What could not be looked at, and why: a line per part, however much of it that was."""
    parts: dict[str, list[tuple[str, str]]] = {}
    for what, why in facts.unseen.items():
        head, _, tail = what.partition(".")
        parts.setdefault(head, []).append((tail, why))
    for head, gaps in parts.items():
        tail, why = gaps[0]
        if len(gaps) > 1:
            yield f"not seen: {head}: {len(gaps)} questions, first {tail or head}: {why}"
        else:
            yield f"not seen: {'.'.join(filter(None, [head, tail]))}: {why}"


def _rows(facts: HostFacts) -> Iterator[tuple[str, str]]:
    """The facts that people look for, as pairs; what is not there has a row that says so."""
    yield from _system_rows(facts)
    yield from _card_rows(facts)
    yield from _software_rows(facts)
    interesting = {k: v for k, v in facts.environ.items() if k.startswith(("ASCEND", "ATB", "LD_"))}
    yield from interesting.items()


def _system_rows(facts: HostFacts) -> Iterator[tuple[str, str]]:
    system, user, box = facts.system, facts.user, facts.container
    yield "system", _said(system.os_name, system.arch, system.kernel, ("glibc", system.glibc))
    yield "cpu", _said(system.cpu_model, (system.cpu_usable, "usable CPUs"))
    yield "memory", _said((system.memory_available_mb, "MB free of", system.memory_total_mb))
    if user is not None:
        groups = ", ".join(user.group_names)
        yield "user", _said(user.name or f"uid {user.uid} (no passwd entry)", ("groups", groups))
    inside = {True: "yes", False: "no", None: "not known"}[box.inside]
    yield "container", _said(inside, box.kind, *(box.signs if box.inside else ()))


def _card_rows(facts: HostFacts) -> Iterator[tuple[str, str]]:
    tool = facts.npu_smi
    if tool.version:
        yield "npu-smi", _said(tool.version, ("driver", tool.driver_version))
    elif tool.error is not None:
        yield "npu-smi", tool.error.text
    for warning in tool.warnings:
        yield "", warning
    for card in facts.cards:
        memory = card.memory
        used = None if memory is None else f"{memory.used} of {memory.total} MB used"
        soc = card.soc and f"{card.soc.name}, {card.soc.generation}"
        yield f"npu {card.npu_id}", _said(soc or card.name, card.health, used, card.node)
    for gpu in facts.nvidia.gpus:
        used = f"{gpu.memory_used_mb} of {gpu.memory_total_mb} MB used"
        yield f"gpu {gpu.index}", _said(gpu.name, used, ("driver", facts.nvidia.driver_version))
    for device in facts.pci if not facts.cards and not facts.nvidia.gpus else ():
        yield "pci", _said(device.bus_id, f"{device.vendor}:{device.device}", device.chip)
    nodes = ", ".join(node.path.removeprefix("/dev/") for node in facts.nodes)
    yield "/dev", nodes or "no accelerator"


def _software_rows(facts: HostFacts) -> Iterator[tuple[str, str]]:
    driver, firmware, info = facts.driver, facts.firmware, facts.install_info
    if driver is not None:
        ranges = ", ".join(map(str, driver.firmware_ranges))
        yield "driver", _said(driver.version, ("for firmware", ranges))
    if firmware is not None:
        yield "firmware", _said(firmware.version)
    if info is not None and info.kind != "missing":
        status = info.status or ("no status line" if info.kind == "file" else f"a {info.kind}")
        yield "install.info", _said(status, info.mode)
    for cann in facts.canns:
        chosen = "in use" if cann is facts.cann else None
        yield "CANN", _said(cann.version, cann.root, ("for", ", ".join(cann.kernels)), chosen)
    for link in facts.links:
        if link.dangling:
            yield "dangling link", f"{link.path} -> {link.target}"
    if facts.nnal is not None:
        abis = ", ".join(map(str, facts.nnal.cxx_abis))
        yield "NNAL", _said(facts.nnal.version, ("cxx_abi", abis))
    yield "python", _said(facts.python.version, facts.python.executable)
    yield "packages", _versions({p.name: p.version for p in facts.python.packages.values()})
    if facts.mindie:
        yield "MindIE", _versions(facts.mindie)


def _versions(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items()) or "none"


def _said(*parts: object) -> str:
    """The known parts joined by commas; a tuple is one part, left out where one of it is empty."""
    told = [part if isinstance(part, tuple) else (part,) for part in parts]
    return ", ".join(" ".join(map(str, part)) for part in told if all(part)) or "not known"

"""`jumar models`: what there is, from the index alone; one model in full."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from jumar import catalog
from jumar.contracts.errors import InvalidValue, did_you_mean

if TYPE_CHECKING:
    from jumar.catalog import Manifest, ModelRow

_TIERS = ("all", "core", "adjacent", "experimental")
_LEAST = 24
_DEVICES = ("cpu", "cuda", "npu")
_COLOURS = {"validated": "green", "emulated": "yellow", "wired": "cyan", "unknown": None}


@click.command(epilog="Weights: jumar models pull MODEL, jumar models where MODEL")
@click.argument("model", required=False)
@click.option("--tier", type=click.Choice(_TIERS), default="all", help="Only models of this tier.")
@click.option("--task", metavar="TASK", help="Only models that do this.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "markdown"]), default="text",
    help="How to print.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--manifest", is_flag=True, help="Print whole manifests, as JSON.")
def command(
    model: str | None, tier: str, task: str | None, form: str, as_json: bool, manifest: bool
) -> None:
    """List the models, or describe one.

    validated: proven on that hardware. emulated: proven on the emulated device. wired: the code
    is there, unproven. unknown: nobody looked. remote: a server runs it.
    """
    form = "json" if as_json else form
    if model is not None:
        _one(catalog.get(model), "json" if manifest else form)
        return
    known = {does for row in catalog.rows() for does in row.tasks}
    if task is not None and task not in known:
        raise InvalidValue(f"No model does {task!r}.", hint=did_you_mean(task, known), param="task")
    rows = [
        row for row in catalog.rows(None if tier == "all" else tier) if task in (None, *row.tasks)
    ]
    if manifest:
        _json([catalog.get(row.id).to_dict() for row in rows])
    else:
        _LISTS[form](rows)
    for failed in catalog.failures():
        click.secho(f"warning: {failed}: {failed.__cause__}", fg="yellow", err=True)


def _listed(rows: Sequence[ModelRow]) -> None:
    if not rows:
        click.echo("No model fits.", err=True)
        return
    table = [("MODEL", "TASKS", "TIER", *(d.upper() for d in _DEVICES), "SUMMARY")]
    table += [
        (row.id, ", ".join(row.tasks), row.tier, *_statuses(row), row.summary) for row in rows
    ]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    room = _width()
    lines = []
    for number, cells in enumerate(table):
        padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
        left = "  ".join(padded[:-1])
        summary = _cut(cells[-1], room - len(left) - 2)
        if number == 0:
            lines.append(click.style("  ".join([left, summary]), dim=True))
            continue
        padded[0] = click.style(padded[0], bold=True)
        padded[3:6] = [click.style(c, fg=_COLOURS.get(c.strip())) for c in padded[3:6]]
        lines.append("  ".join([*padded[:-1], summary]))
    click.echo("\n".join(line.rstrip() for line in lines))


def _width() -> int:
    """Columns of the terminal; no limit where the list goes into a file or a pipe."""
    if not sys.stdout.isatty():
        return 10_000
    import shutil

    return shutil.get_terminal_size().columns


def _cut(text: str, room: int) -> str:
    """As much of a summary as fits; nothing where that would be a word or two."""
    if room < _LEAST:
        return ""
    return text if len(text) <= room else text[: room - 1].rstrip() + "…"


def _statuses(row: ModelRow) -> list[str]:
    other = "remote" if "remote" in row.backends else "unknown"
    return [row.backends.get(device, other) for device in _DEVICES]


def _marked_down(rows: Sequence[ModelRow]) -> None:
    click.echo(
        "| model | tasks | tier | cpu | cuda | npu | summary |\n|---|---|---|---|---|---|---|"
    )
    for row in rows:
        cells = (f"`{row.id}`", ", ".join(row.tasks), row.tier, *_statuses(row), row.summary)
        click.echo(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")


def _json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


_LISTS: dict[str, Callable[[Sequence[ModelRow]], None]] = {
    "text": _listed,
    "markdown": _marked_down,
    "json": lambda rows: _json([row._asdict() for row in rows]),
}


def _one(manifest: Manifest, form: str) -> None:
    if form == "json":
        _json(manifest.to_dict())
        return
    from jumar.cli.params import keys_of, metavar

    head = "# " if form == "markdown" else ""
    click.echo(click.style(f"{head}{manifest.id}", bold=True) + f"\n{manifest.summary}\n")
    page = click.HelpFormatter(width=_width() if sys.stdout.isatty() else 100)
    page.write_dl(_facts(manifest))
    sections: dict[str, list[tuple[str, str]]] = {}
    for key in keys_of(manifest):
        row = (f"{key.name} {metavar(key.param)}", key.said)
        sections.setdefault(key.heading, []).append(row)
    if manifest.presets:
        sections["Presets"] = [(name, _pairs(values)) for name, values in manifest.presets.items()]
    for heading, rows in sections.items():
        with page.section(heading):
            page.write_dl(rows, col_max=38)
    click.echo(page.getvalue(), nl=False)


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    needs = manifest.resources
    facts = [
        ("tasks", ", ".join(manifest.tasks)),
        ("tier", manifest.tier),
        ("family", manifest.family),
        ("licence", manifest.licence),
        ("also named", ", ".join(manifest.aliases)),
        ("memory", f"{needs.memory_gb:g} GiB on the device" if needs.memory_gb else ""),
        ("download", f"{needs.download_mb:g} MB" if needs.download_mb else ""),
        ("adapters", ", ".join(manifest.adapters)),
    ]
    facts += [(f"weights {name}", weights.source) for name, weights in manifest.weights.items()]
    for device, known in manifest.backends.items():
        evidence = f" ({known.evidence})" if known.evidence else ""
        facts.append(
            (f"on {device}", click.style(known.status, fg=_COLOURS[known.status]) + evidence)
        )
    return [fact for fact in facts if fact[1]]


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items())

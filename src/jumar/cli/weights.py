"""`jumar models pull` and `jumar models where`: a model's weights on this machine."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar import catalog
from jumar.cli import show
from jumar.cli.flags import complete_model
from jumar.cli.progress import Watch, watching
from jumar.cli.stopping import stoppable
from jumar.reporting.units import size

if TYPE_CHECKING:
    import threading

    from jumar.catalog import Manifest
    from jumar.runtime.weights import Progress


@click.command()
@click.argument("model", shell_complete=complete_model)
@click.option("--verify", is_flag=True, help="Hash all files, also those checked before.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the paths.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def pull(model: str, verify: bool, quiet: bool, as_json: bool) -> None:
    """Fetch a model's weights, check them, and say where they are."""
    manifest = catalog.get(model)
    with watching(quiet=quiet or as_json, verbose=False) as watch:
        paths = stoppable(
            lambda cancel: _pulled(manifest, watch, verify, cancel),
            on_first=watch.stopping,
            on_second=watch.close,
        )
    if as_json:
        show.as_json({name: str(path) for name, path in paths.items()})
        return
    for path in paths.values():
        click.echo(path)


@click.command()
@click.argument("model", shell_complete=complete_model)
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def where(model: str, as_json: bool) -> None:
    """Say where a model's weights are, without fetching anything."""
    from jumar.runtime import weights

    found = weights.where(catalog.get(model))
    if as_json:
        show.as_json(
            [
                {
                    "name": row.name,
                    "source": row.source,
                    "path": None if row.path is None else str(row.path),
                    "size_bytes": row.size,
                    "complete": row.complete,
                    "missing": list(row.missing),
                }
                for row in found
            ]
        )
        return
    for row in found:
        state, colour = ("complete", "green") if row.complete else ("not here", "yellow")
        if row.path is not None and not row.complete:
            state = f"partial: {len(row.missing)} files missing or changed"
        name, state = click.style(row.name, bold=True), click.style(state, fg=colour)
        click.echo(f"{name}  {state}  {size(row.size)}")
        click.echo(f"  {row.path or '-'}\n  {click.style(row.source, dim=True)}")


def _pulled(
    manifest: Manifest, watch: Watch, verify: bool, cancel: threading.Event
) -> dict[str, Path]:
    from jumar.runtime.weights import ensure_all

    begun = time.perf_counter()
    _tell(watch, "stage_started")
    paths = ensure_all(
        manifest,
        converters=_converters(manifest),
        verify=verify,
        progress=lambda step: _step(watch, step),
        cancel=cancel,
    )
    _tell(watch, "stage_finished", ms=(time.perf_counter() - begun) * 1e3)
    return paths


def _converters(manifest: Manifest) -> Any:
    """The family's, where they are needed: fetching alone needs nothing of the runtime."""
    if not any(weights.convert for weights in manifest.weights.values()):
        return {}
    from jumar.runtime.families import family_of

    return family_of(manifest).converters


def _step(watch: Watch, step: Progress) -> None:
    _tell(watch, "step", done=step.done_bytes, total=step.total_bytes, what=step.what, unit="bytes")


def _tell(watch: Watch, event: str, **data: Any) -> None:
    from jumar.contracts.results import StageEventRecord

    if watch.listener is not None:
        now = time.time_ns() // 1_000_000
        watch.listener(StageEventRecord(event=event, stage="fetch", timestamp_ms=now, data=data))

"""`jumar generate`: one request, from a file or from flags, to artifacts and a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jumar.cli import show
from jumar.cli.flags import ModelCommand, request_of, request_options
from jumar.cli.isolating import investigator, isolation_options
from jumar.cli.progress import watching
from jumar.cli.stopping import stoppable
from jumar.cli.validate import checked

if TYPE_CHECKING:
    from jumar.engine.life import Isolate


@click.command(cls=ModelCommand)
@request_options
@click.option("--dry-run", is_flag=True, help="Only say what would run.")
@click.option(
    "--out", "-o", metavar="PATH", help="Folder, or file name of the result.  [default jumar-out]"
)
@click.option("--overwrite", is_flag=True, help="Let --out replace a file.")
@isolation_options
@click.option("--quiet", "-q", is_flag=True, help="Print only what was made.")
@click.option("--verbose", "-v", is_flag=True, help="A line per stage where there is no terminal.")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    *,
    as_json: bool,
    dry_run: bool,
    heal: str,
    heartbeat: float | None,
    isolate: Isolate,
    load_heartbeat: float | None,
    out: str | None,
    overwrite: bool,
    quiet: bool,
    verbose: bool,
    **_: Any,
) -> None:
    """Run a request on a model.

    Flags win over REQUEST_FILE (JSON or YAML). Which flags there are depends on the model: see
    jumar generate --model MODEL --help.
    """
    request = request_of(ctx)
    if dry_run:
        ctx.exit(checked(request, json_only=as_json))

    from jumar import engine

    with watching(quiet=quiet or as_json, verbose=verbose) as watch:
        done = stoppable(
            lambda cancel: engine.generate(
                request,
                out=out,
                overwrite=overwrite,
                listener=watch.listener,
                cancel=cancel,
                isolate=isolate,
                heartbeat=heartbeat,
                load_heartbeat=load_heartbeat,
                investigate=investigator(heal),
            ),
            on_first=watch.stopping,
            on_second=watch.close,
        )
    folder = show.folder_of(out or request.config.get("output_dir") or "jumar-out")
    ctx.exit(show.result(done, json_only=as_json, quiet=quiet, folder=folder))

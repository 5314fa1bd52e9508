"""`jumar report`: a run as a table, a page or a trace."""

from __future__ import annotations

import json
from pathlib import Path

import click

from jumar.contracts.errors import InvalidRequest, OutputFailed


@click.command()
@click.argument("which", nargs=-1, metavar="[PATH|RUN_ID|latest]...")
@click.option(
    "--in",
    "folder",
    metavar="FOLDER",
    help="Where run ids and `latest` are looked for.  [default: jumar-out and this folder]",
)
@click.option("--html", metavar="FILE", help="Write one self-contained page.")
@click.option("--trace", metavar="FILE", help="Write a trace for ui.perfetto.dev.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    which: tuple[str, ...], folder: str | None, html: str | None, trace: str | None, as_json: bool
) -> None:
    """Show a run: where its time went, what fell back, what it made.

    A folder means all reports in it. Without a name: the latest.
    """
    from jumar import reporting

    # A run with --out FILE leaves its report beside the file: most often right here.
    folders = [Path(folder)] if folder else [Path("jumar-out"), Path()]
    found = [one for name in which or ("latest",) for one in reporting.find(name, *folders)]
    if not found:
        raise InvalidRequest(f"There is no report in {', '.join(map(repr, which))}.", param="which")
    if html is not None:
        _write(html, reporting.as_html(found))
    if trace is not None:
        if len(found) > 1:
            raise InvalidRequest("A trace shows one run.", hint="Name one report.", param="trace")
        _write(trace, json.dumps(reporting.as_trace(found[0][1])))
    if as_json:
        reports = [report.model_dump(mode="json") for _, report in found]
        click.echo(json.dumps(reports[0] if len(reports) == 1 else reports, indent=2))
    elif html is None and trace is None:
        from rich.console import Console

        console = Console()
        for number, (_, report) in enumerate(found):
            console.print("\n" if number else "", end="")
            console.print(reporting.as_table(report))


def _write(path: str, text: str) -> None:
    """Written beside the target and moved: an earlier file is whole until then."""
    target = Path(path).expanduser()
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        raise OutputFailed(f"Cannot write {target}: {error.strerror}.", param="out") from error
    finally:
        part.unlink(missing_ok=True)
    click.echo(target)

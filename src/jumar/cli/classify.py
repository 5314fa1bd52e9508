"""`jumar classify`: what texts are, or what stands where in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from jumar.cli import show
from jumar.cli.flags import complete_model
from jumar.cli.isolating import isolation_options
from jumar.cli.reading import Where, lines_of, read
from jumar.contracts.errors import InvalidRequest
from jumar.reporting.readings import Head, shown

if TYPE_CHECKING:
    from jumar.engine.life import Isolate


@click.command()
@click.argument("texts", nargs=-1)
@click.option("--file", "-f", "file", metavar="FILE", help="A text per line; - is stdin.")
@click.option(
    "--model",
    "-m",
    default="svguardian",
    show_default=True,
    metavar="MODEL",
    shell_complete=complete_model,
    help="A classifier: of the catalog, a folder, or OWNER/REPO@COMMIT of the hub.",
)
@click.option(
    "--device",
    "--backend",
    "-d",
    "backend",
    default="auto",
    metavar="DEVICE",
    help="auto, cpu, cuda[:N], npu[:N], npu:free.",
)
@click.option(
    "--overflow",
    type=click.Choice(["reject", "truncate", "window"]),
    help="A text over the limit: refused, cut off, or read in windows.  [default: reject]",
)
@click.option(
    "--threshold",
    type=click.FloatRange(0, 1),
    help="Least score of a label, or probability of a stretch.",
)
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--quiet", "-q", is_flag=True, help="Print only what was found.")
def command(
    *, texts: tuple[str, ...], file: str | None, model: str, backend: str, overflow: str | None,
    threshold: float | None, isolate: Isolate, heartbeat: float | None,
    load_heartbeat: float | None, heal: str, as_json: bool, quiet: bool,
) -> None:  # fmt: skip
    """Say what each of TEXTS is: a label, several, or labels of its parts."""
    listed = [*texts, *lines_of(file)]
    if not listed:
        raise InvalidRequest("There is no text.", hint="Name texts, or --file FILE (- is stdin).")
    given = {} if overflow is None else {"overflow": overflow}
    where = Where(model, "classification", backend, isolate, heartbeat, load_heartbeat, heal)
    found = read(where, listed, given, quiet or as_json)
    assert found.head is not None, "every classifier says what its values are"
    head = Head.of(found.head)
    results = [shown(head, value, threshold) for value in found.values]
    if as_json:
        pairs = zip(listed, results, strict=True)
        show.as_json([{"text": text, **result} for text, result in pairs])
        return
    for text, result in zip(listed, results, strict=True):
        click.echo(f"{_in_words(head, result):<32}  {text}")


def _in_words(head: Head, result: dict[str, Any]) -> str:
    if head.kind == "token":
        spans: Sequence[dict[str, Any]] = result["spans"]
        return ", ".join(f"{span['label']}: {span['text']}" for span in spans) or "-"
    if head.kind == "scores":
        return ", ".join(result["selected"]) or "-"
    return f"{result['label']} {max(result['probabilities']):.3f}"

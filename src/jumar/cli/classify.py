"""`jumar classify`: what texts are, or what stands where in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from jumar.cli import show
from jumar.cli.isolating import isolation_options
from jumar.cli.reading import Where, lines_of, place_options, read
from jumar.contracts.errors import InvalidRequest
from jumar.reporting.readings import Head, shown


@click.command()
@click.argument("texts", nargs=-1)
@click.option("--file", "-f", "file", metavar="FILE", help="A text per line; - is stdin.")
@place_options(
    "A classifier: of the catalog, a folder, or OWNER/REPO@COMMIT of the hub.", default="svguardian"
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
    *, texts: tuple[str, ...], file: str | None, overflow: str | None, threshold: float | None,
    as_json: bool, quiet: bool, **place: Any,
) -> None:  # fmt: skip
    """Say what each of TEXTS is: a label, several, or labels of its parts."""
    listed = [*texts, *lines_of(file)]
    if not listed:
        raise InvalidRequest("There is no text.", hint="Name texts, or --file FILE (- is stdin).")
    given = {} if overflow is None else {"overflow": overflow}
    where = Where("classification", **place)
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

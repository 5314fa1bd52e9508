"""`jumar rerank`: documents in the order in which they answer a query."""

from __future__ import annotations

from typing import Any

import click

from jumar.cli import show
from jumar.cli.isolating import isolation_options
from jumar.cli.reading import Where, lines_of, place_options, read
from jumar.contracts.errors import InvalidRequest
from jumar.reporting.readings import Head, ranked, shown


@click.command()
@click.argument("documents", nargs=-1)
@click.option("--query", required=True, help="What the documents are to answer.")
@click.option("--file", "-f", "file", metavar="FILE", help="A document per line; - is stdin.")
@place_options("A cross-encoder: of the catalog, a folder, or OWNER/REPO@COMMIT of the hub.")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the best.")
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--quiet", "-q", is_flag=True, help="Print only what was found.")
def command(
    *, documents: tuple[str, ...], query: str, file: str | None, top: int | None, as_json: bool,
    quiet: bool, **place: Any,
) -> None:  # fmt: skip
    """Put DOCUMENTS in the order in which they answer a query."""
    listed = [*documents, *lines_of(file)]
    if not listed:
        raise InvalidRequest("There is no document.", hint="Name some, or --file FILE.")
    where = Where("reranking", **place)
    found = read(where, listed, {"query": [query]}, quiet or as_json)
    assert found.head is not None, "every reranker says what its values are"
    head = Head.of(found.head)
    order = ranked([float(value[0]) for value in found.values], top)
    results = [{"index": at, **shown(head, found.values[at]), "text": listed[at]} for at in order]
    if as_json:
        show.as_json(results)
        return
    for result in results:
        click.echo(f"{result['relevance_score']:.3f}  {result['text']}")

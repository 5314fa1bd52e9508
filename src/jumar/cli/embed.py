"""`jumar embed`: vectors of texts, or texts in the order in which they fit a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from jumar.cli import show
from jumar.cli.isolating import isolation_options
from jumar.cli.progress import watching
from jumar.cli.reading import Where, lines_of, place_options, read
from jumar.cli.stopping import stoppable
from jumar.contracts.errors import InvalidInput, InvalidRequest
from jumar.reporting.vectors import cosine

_SHOWN = 6


@click.command()
@click.argument("texts", nargs=-1)
@click.option("--file", "-f", "file", metavar="FILE", help="A text per line; - is stdin.")
@click.option("--query", help="Rank the texts by how near they are to this one.")
@place_options("A model that makes vectors.", default="all-minilm-l6-v2")
@click.option("--dimensions", type=int, help="Keep only the first numbers of each vector.")
@isolation_options
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--out", "-o", metavar="PATH", help="Write the vectors there, with a report.")
@click.option("--overwrite", is_flag=True, help="Let --out replace a file.")
@click.option("--quiet", "-q", is_flag=True, help="Print only what was made.")
@click.pass_context
def command(
    ctx: click.Context, /, *, texts: tuple[str, ...], file: str | None, query: str | None,
    dimensions: int | None, as_json: bool, out: str | None, overwrite: bool, quiet: bool,
    **place: Any,
) -> None:  # fmt: skip
    """Turn TEXTS into vectors; with --query, rank them.

    Lists and pipes: jumar embed --file lines.txt --query "rope"
    """
    listed = [*texts, *lines_of(file)]
    if not listed:
        raise InvalidRequest("There is no text.", hint="Name texts, or --file FILE (- is stdin).")
    config = {} if dimensions is None else {"dimensions": dimensions}
    where = Where("embeddings", **place)
    if query is not None and not query.strip():
        raise InvalidInput("The query is empty.", param="query")
    if out is not None:
        if query is not None:
            raise InvalidRequest(
                "--query ranks on the screen, --out writes vectors to a file.",
                hint="Say one of them.",
                param="query",
            )
        ctx.exit(_written(where, listed, config, out, overwrite, as_json, quiet))
    asked = listed if query is None else [*listed, query]
    rows = read(where, asked, config, quiet or as_json).values.tolist()
    if query is None:
        _vectors(listed, rows, as_json)
    else:
        _ranking(query, listed, rows, as_json)


def _written(
    where: Where, texts: list[str], config: dict[str, Any], out: str,
    overwrite: bool, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    from jumar import engine
    from jumar.contracts import requests

    request = requests.embeddings(where.model, texts, backend=where.backend, **config)
    with watching(quiet=quiet or as_json, verbose=False) as watch:
        done = stoppable(
            lambda cancel: engine.generate(
                request,
                out=out,
                overwrite=overwrite,
                listener=watch.listener,
                cancel=cancel,
                isolate=where.isolate,
                **where.watched(),
            ),
            on_first=watch.stopping,
            on_second=watch.close,
        )
    return show.result(done, json_only=as_json, quiet=quiet, folder=show.folder_of(out))


def _vectors(texts: Sequence[str], rows: Sequence[Sequence[float]], as_json: bool) -> None:
    if as_json:
        pairs = zip(texts, rows, strict=True)
        show.as_json([{"text": text, "vector": list(row)} for text, row in pairs])
        return
    for text, row in zip(texts, rows, strict=True):
        numbers = " ".join(f"{number: .3f}" for number in row[:_SHOWN])
        more = f" … ({len(row)} numbers)" if len(row) > _SHOWN else ""
        click.echo(f"[{numbers}{click.style(more, dim=True)}]  {text}")


def _ranking(
    query: str, texts: Sequence[str], rows: Sequence[Sequence[float]], as_json: bool
) -> None:
    *rows_of_texts, asked = rows
    near = [cosine(asked, row) for row in rows_of_texts]
    ranked = sorted(zip(near, texts, strict=True), key=lambda pair: -pair[0])
    if as_json:
        ranking = [{"score": score, "text": text} for score, text in ranked]
        show.as_json({"query": query, "ranking": ranking})
        return
    for score, text in ranked:
        bar = "█" * round(max(score, 0) * 20)
        click.echo(f"{score:6.3f}  {click.style(bar.ljust(20), fg='cyan')}  {text}")

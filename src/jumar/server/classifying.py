"""POST /v1/classify and /v1/rerank: labels of texts, and documents in the order of a query."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar.contracts.errors import InvalidModelOutput, UnsupportedTask
from jumar.engine.results import Vectors
from jumar.reporting.readings import Head, ranked, shown
from jumar.server.contracts import ClassifyBody, ClassifyOptions, GenerateBody, Pair, RerankBody
from jumar.server.reading import done, headers, read, usage
from jumar.server.wire import checked, json_of


async def classify(request: Request) -> Response:
    """Labels, scores or spans of each text."""
    body = checked(ClassifyBody, await json_of(request))
    listed = [body.input] if isinstance(body.input, str) else body.input
    texts = [one.text if isinstance(one, Pair) else one for one in listed]
    inputs: dict[str, Any] = {"texts": texts}
    if pairs := [one.text_pair for one in listed if isinstance(one, Pair)]:
        inputs["text_pairs"] = pairs
    asked = GenerateBody(
        model=body.model, task="classification", inputs=inputs, config=_config(body.options)
    )
    found = await read(request, asked, size=len(texts), deadline_ms=body.deadline_ms)
    content = await done(len(texts), _labelled, found, body)
    return JSONResponse(content, headers=headers(found))


async def rerank(request: Request) -> Response:
    """Documents, the one that answers the query best first."""
    body = checked(RerankBody, await json_of(request))
    asked = GenerateBody(
        model=body.model,
        task="reranking",
        inputs={"texts": body.documents, "query": [body.query]},
        config=_config(body.options),
    )
    size = len(body.documents)
    found = await read(request, asked, size=size, deadline_ms=body.deadline_ms)
    return JSONResponse(await done(size, _ranked, found, body), headers=headers(found))


async def undecided(request: Request) -> Response:
    """Routes of the model runtime that are not answered here.

    Raises:
        UnsupportedTask: always.
    """
    raise UnsupportedTask(
        f"{request.url.path} is not answered here: no model takes typed questions.",
        hint="POST /v1/classify answers with labels, scores and spans.",
    )


def _config(options: ClassifyOptions) -> dict[str, Any]:
    """The model's keys that options set."""
    window = options.window
    named = {
        "overflow": options.overflow,
        "max_tokens": options.max_tokens,
        "window_tokens": window and window.tokens,
        "window_overlap": window and window.overlap,
    }
    return {key: value for key, value in named.items() if value is not None}


def _labelled(found: Vectors, body: ClassifyBody) -> dict[str, Any]:
    head = _head(found)
    results = [
        {"index": place, **shown(head, value, body.options.threshold), **_read(found, place)}
        for place, value in enumerate(found.values)
    ]
    return {
        "model": body.model,
        "head": head.name,
        "kind": head.kind,
        "labels": list(head.labels),
        "results": results,
        "usage": usage(found),
    }


def _ranked(found: Vectors, body: RerankBody) -> dict[str, Any]:
    head = _head(found)
    order = ranked([float(value[0]) for value in found.values], body.top_n)
    results = [{"index": place, **shown(head, found.values[place])} for place in order]
    for result in results if body.return_documents else ():
        result["document"] = {"text": body.documents[result["index"]]}
    return {"object": "list", "model": body.model, "results": results, "usage": usage(found)}


def _read(found: Vectors, place: int) -> dict[str, Any]:
    """How much of the text was read; nothing where the model does not count."""
    if not found.tokens:
        return {"windows": 1}
    tokens, over, windows = found.tokens[place], found.over[place], found.windows[place]
    told = {
        "tokens": tokens + over,
        "processed_tokens": tokens,
        "truncated": over > 0,
        "windows": windows,
    }
    return {"windows": windows, "input": told}


def _head(found: Vectors) -> Head:
    if found.head is None:
        raise InvalidModelOutput("The model did not say what its values are.")
    return Head.of(dict(found.head))

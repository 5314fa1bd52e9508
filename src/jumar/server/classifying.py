"""POST /v1/classify and /v1/rerank: labels of texts, and documents in the order of a query."""

from __future__ import annotations

from functools import partial
from typing import Any

from jumar.contracts.errors import InvalidModelOutput
from jumar.engine.results import Vectors
from jumar.reporting.readings import Head, ranked, shown
from jumar.server.contracts import ClassifyBody, GenerateBody, Pair, RerankBody
from jumar.server.desk import Desk
from jumar.server.reading import OPTIONS, Asking, config_of, usage, written
from jumar.server.wire import checked

_INPUT = {"texts": "input", "text_pairs": "input", **OPTIONS}
_DOCUMENTS = {"texts": "documents", **OPTIONS}


def classify(desk: Desk, payload: dict[str, Any]) -> Asking:
    """Labels, scores or spans of each text."""
    body = checked(ClassifyBody, payload)
    listed = [body.input] if isinstance(body.input, str) else body.input
    texts = [one.text if isinstance(one, Pair) else one for one in listed]
    inputs: dict[str, Any] = {"texts": texts}
    if pairs := [one.text_pair for one in listed if isinstance(one, Pair)]:
        inputs["text_pairs"] = pairs
    config = config_of(body.options)
    asked = GenerateBody(model=body.model, task="classification", inputs=inputs, config=config)
    return Asking(asked, len(texts), partial(_labelled, body), body.deadline_ms, _INPUT)


def rerank(desk: Desk, payload: dict[str, Any]) -> Asking:
    """Documents, the one that answers the query best first."""
    body = checked(RerankBody, payload)
    inputs = {"texts": body.documents, "query": [body.query]}
    config = config_of(body.options)
    asked = GenerateBody(model=body.model, task="reranking", inputs=inputs, config=config)
    written_as = partial(_ranked, body)
    return Asking(asked, len(body.documents), written_as, body.deadline_ms, _DOCUMENTS)


def head_of(found: Vectors) -> Head:
    """What the values are."""
    if found.head is None:
        raise InvalidModelOutput("The model did not say what its values are.")
    return Head.of(dict(found.head))


def _labelled(body: ClassifyBody, found: Vectors) -> str:
    head = head_of(found)
    results = [
        {"index": place, **shown(head, value, body.options.threshold), **_read(found, place)}
        for place, value in enumerate(found.values)
    ]
    return written(
        {
            "model": body.model,
            "head": head.name,
            "kind": head.kind,
            "labels": list(head.labels),
            "results": results,
            "usage": usage(found),
        }
    )


def _ranked(body: RerankBody, found: Vectors) -> str:
    head = head_of(found)
    order = ranked([float(value[0]) for value in found.values], body.top_n)
    results = [{"index": place, **shown(head, found.values[place])} for place in order]
    for result in results if body.return_documents else ():
        result["document"] = {"text": body.documents[result["index"]]}
    return written(
        {"object": "list", "model": body.model, "results": results, "usage": usage(found)}
    )


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

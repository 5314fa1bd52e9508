"""POST /v1/embeddings, as OpenAI has it."""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.engine.answering import Encoding, Vectors
from jumar.runtime.families import family_of
from jumar.server.contracts import EmbeddingsBody, GenerateBody
from jumar.server.desk import Desk
from jumar.server.wire import answered, checked, json_of

if TYPE_CHECKING:
    import numpy as np


async def embeddings(request: Request) -> Response:
    """Vectors of texts; those of several callers are computed together."""
    desk: Desk = request.app.state.desk
    body = checked(EmbeddingsBody, await json_of(request))
    resolved, encoding = await run_in_threadpool(_read, desk, body, request.state.request_id)
    model = resolved.manifest.id
    request.state.told = {"model": model, "texts": len(encoding.texts)}
    deadline = None if body.deadline_ms is None else time.monotonic() + body.deadline_ms / 1e3
    future = desk.house.encode(resolved, encoding, deadline=deadline)
    vectors = await answered(request, future)
    desk.metrics.read(model, sum(vectors.tokens))
    content = await run_in_threadpool(_content, vectors, body)
    return Response(content, media_type="application/json")


def _read(desk: Desk, body: EmbeddingsBody, request_id: str) -> tuple[ResolvedRequest, Encoding]:
    """What is to be encoded, checked as for `/v1/generate`."""
    config = {} if body.dimensions is None else {"dimensions": body.dimensions}
    asked = GenerateBody(
        model=body.model, task="embeddings", inputs={"texts": body.input}, config=config
    )
    resolved = catalog.resolve(desk.request(asked, request_id))
    inputs = family_of(resolved.manifest).prepare(resolved)
    return resolved, Encoding(inputs["texts"], config)


def _content(vectors: Vectors, body: EmbeddingsBody) -> str:
    """OpenAI's list as JSON, made vector by vector: a large one must not keep others waiting, as
    `json.dumps` of the whole would (it holds the interpreter's lock to its end).
    """
    count = sum(vectors.tokens)
    rows = ",".join(
        json.dumps({"object": "embedding", "index": place, "embedding": _written(row, body)})
        for place, row in enumerate(vectors.values)
    )
    usage = json.dumps({"prompt_tokens": count, "total_tokens": count})
    model = json.dumps(body.model)
    return f'{{"object":"list","data":[{rows}],"model":{model},"usage":{usage}}}'


def _written(vector: np.ndarray[Any, Any], body: EmbeddingsBody) -> Any:
    """A vector as numbers, or as base64 of float32, little-endian."""
    if body.encoding_format == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return vector.tolist()

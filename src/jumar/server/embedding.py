"""POST /v1/embeddings, as OpenAI has it."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.engine.answering import Encoding
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
    desk.metrics.read(model, count := sum(vectors.tokens))
    data = [
        {"object": "embedding", "index": place, "embedding": _written(row, body.encoding_format)}
        for place, row in enumerate(vectors.values)
    ]
    usage = {"prompt_tokens": count, "total_tokens": count}
    return JSONResponse({"object": "list", "data": data, "model": body.model, "usage": usage})


def _read(desk: Desk, body: EmbeddingsBody, request_id: str) -> tuple[ResolvedRequest, Encoding]:
    """What is to be encoded, checked as for `/v1/generate`."""
    config = {} if body.dimensions is None else {"dimensions": body.dimensions}
    asked = GenerateBody(
        model=body.model, task="embeddings", inputs={"texts": body.input}, config=config
    )
    resolved = catalog.resolve(desk.request(asked, request_id))
    inputs = family_of(resolved.manifest).prepare(resolved)
    return resolved, Encoding(inputs["texts"], config)


def _written(vector: np.ndarray[Any, Any], form: str) -> Any:
    """A vector as numbers, or as base64 of float32, little-endian."""
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return vector.tolist()

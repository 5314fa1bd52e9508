"""POST /v1/embeddings, as OpenAI has it."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.engine.results import Encoding, Vectors
from jumar.runtime.families import family_of
from jumar.server.contracts import EmbeddingsBody, GenerateBody
from jumar.server.desk import Desk
from jumar.server.wire import answered, checked, json_of

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

HITS = "X-Jumar-Cache-Hits"
"""How many of the texts had been read before, and were not computed again."""

_FEW = 64
"""Texts that are read and answered without a thread."""


async def embeddings(request: Request) -> Response:
    """Vectors of texts; those of several callers are computed together."""
    desk: Desk = request.app.state.desk
    body = checked(EmbeddingsBody, await json_of(request))
    size = 1 if isinstance(body.input, str) else len(body.input)
    resolved, encoding = await _done(size, _read, desk, body, request.state.request_id)
    model = resolved.manifest.id
    request.state.told = {"model": model, "texts": len(encoding.texts)}
    deadline = None if body.deadline_ms is None else time.monotonic() + body.deadline_ms / 1e3
    future = desk.house.encode(resolved, encoding, deadline=deadline)
    vectors = await answered(request, future)
    desk.metrics.read(model, vectors)
    content = await _done(size, _content, vectors, body)
    headers = {HITS: str(vectors.hits)}
    return Response(content, media_type="application/json", headers=headers)


def _read(desk: Desk, body: EmbeddingsBody, request_id: str) -> tuple[ResolvedRequest, Encoding]:
    """What is to be encoded, checked as for `/v1/generate`."""
    config = {} if body.dimensions is None else {"dimensions": body.dimensions}
    asked = GenerateBody(
        model=body.model, task="embeddings", inputs={"texts": body.input}, config=config
    )
    resolved = catalog.resolve(desk.request(asked, request_id))
    inputs = family_of(resolved.manifest).prepare(resolved)
    return resolved, Encoding(inputs["texts"], config)


async def _done(size: int, work: Callable[..., T], *given: Any) -> T:
    """Do it here for few texts: a thread would cost more than the work. Many texts must not keep
    others waiting.
    """
    return work(*given) if size <= _FEW else await run_in_threadpool(work, *given)


def _content(vectors: Vectors, body: EmbeddingsBody) -> str:
    """OpenAI's list as JSON, made vector by vector: a large one must not keep others waiting, as
    `json.dumps` of the whole would (it holds the interpreter's lock to its end).
    """
    count = sum(vectors.tokens)
    written = _base64 if body.encoding_format == "base64" else _numbers
    rows = ",".join(
        f'{{"object":"embedding","index":{place},"embedding":{written(row)}}}'
        for place, row in enumerate(vectors.values)
    )
    usage = f'{{"prompt_tokens":{count},"total_tokens":{count}}}'
    model = json.dumps(body.model)
    return f'{{"object":"list","data":[{rows}],"model":{model},"usage":{usage}}}'


def _numbers(vector: np.ndarray[Any, Any]) -> str:
    """A vector as JSON. Nine digits say a float32 exactly (IEEE 754: 1 + 24 log10 2, rounded up);
    `json.dumps` takes four times as long for the digits of a float64.
    """
    return f"[{','.join(['%.9g'] * len(vector))}]" % tuple(vector.tolist())


def _base64(vector: np.ndarray[Any, Any]) -> str:
    """A vector as base64 of float32, little-endian."""
    return f'"{base64.b64encode(vector.astype("<f4").tobytes()).decode()}"'

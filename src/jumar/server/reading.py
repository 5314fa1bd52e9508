"""What reading routes have in common: texts in, a value for each, computed with those of others."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.engine.results import Encoding, Vectors
from jumar.runtime.families import family_of
from jumar.server.contracts import GenerateBody
from jumar.server.desk import Desk
from jumar.server.wire import answered

T = TypeVar("T")

_FEW = 64
"""Texts that are read and answered without a thread."""


async def read(
    request: Request, body: GenerateBody, *, size: int, deadline_ms: float | None
) -> Vectors:
    """The values of `size` texts.

    Raises:
        JumarError: what is wrong with them, or went wrong.
    """
    desk: Desk = request.app.state.desk
    resolved, encoding = await done(size, _encoding, desk, body, request.state.request_id)
    model = resolved.manifest.id
    request.state.told = {"model": model, "texts": len(encoding.texts)}
    deadline = None if deadline_ms is None else time.monotonic() + deadline_ms / 1e3
    vectors = await answered(request, desk.house.encode(resolved, encoding, deadline=deadline))
    desk.metrics.read(model, vectors)
    return vectors


def headers(vectors: Vectors) -> dict[str, str]:
    """How many of the texts had been read before, and were not computed again."""
    return {"X-Jumar-Cache-Hits": str(vectors.hits)}


def usage(vectors: Vectors) -> dict[str, int]:
    """OpenAI's count of tokens."""
    count = sum(vectors.tokens)
    return {"prompt_tokens": count, "total_tokens": count}


async def done(size: int, work: Callable[..., T], *given: Any) -> T:
    """Do it here for few texts: a thread would cost more than the work. Many texts must not keep
    others waiting.
    """
    return work(*given) if size <= _FEW else await run_in_threadpool(work, *given)


def _encoding(desk: Desk, body: GenerateBody, request_id: str) -> tuple[ResolvedRequest, Encoding]:
    """What is to be read, checked as for `/v1/generate`."""
    resolved = catalog.resolve(desk.request(body, request_id))
    inputs: Mapping[str, Any] = family_of(resolved.manifest).prepare(resolved)
    beside = {key: inputs[key] for key in resolved.spec.inputs if key in inputs and key != "texts"}
    return resolved, Encoding(inputs["texts"], body.config, beside)

"""What reading routes have in common: texts in, a value for each, computed with those of others."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidModelOutput, JumarError
from jumar.engine.results import Encoding, Vectors
from jumar.runtime.families import family_of
from jumar.server import outward
from jumar.server.contracts import GenerateBody, ReadOptions
from jumar.server.desk import Desk
from jumar.server.wire import answered, json_of

T = TypeVar("T")

_FEW = 64
"""Texts that are read and answered without a thread."""


@dataclass(frozen=True)
class Asking:
    """What a body asks of a model.

    Args:
        body: The request for the model, with `size` texts.
        written: Its answer as JSON.
        deadline_ms: After this nobody wants it.
        fields: What sets the model's keys in the body, where it has another name there.
        blamed: An error of the model's, as one of the body.
    """

    body: GenerateBody
    size: int
    written: Callable[[Vectors], str]
    deadline_ms: float | None = None
    fields: Mapping[str, str] = field(default_factory=dict)
    blamed: Callable[[JumarError], JumarError] = lambda error: error

    @contextmanager
    def in_its_words(self) -> Iterator[None]:
        """Have errors speak of the body, not of the request that was made of it."""
        with outward.as_written(self.fields):
            try:
                yield
            except JumarError as error:
                raise self.blamed(error) from error.__cause__


OPTIONS = {
    "overflow": "options.overflow",
    "max_tokens": "options.max_tokens",
    "window_tokens": "options.window.tokens",
    "window_overlap": "options.window.overlap",
}
"""The fields of `ReadOptions`, by the keys that they set."""

Surface: TypeAlias = Callable[[Desk, dict[str, Any]], Asking]
"""Makes what is asked of a body; raises InvalidRequest."""


def route(surface: Surface) -> Callable[[Request], Awaitable[Response]]:
    """A route that reads."""

    async def handler(request: Request) -> Response:
        asking = surface(request.app.state.desk, await json_of(request))
        with asking.in_its_words():
            found = await read(request, asking)
        content = await done(asking.size, asking.written, found)
        return Response(content, media_type="application/json", headers=headers(found))

    return handler


async def read(request: Request, asking: Asking) -> Vectors:
    """The values of the texts.

    Raises:
        JumarError: what is wrong with them, or went wrong.
    """
    desk: Desk = request.app.state.desk
    name = request.state.request_id
    resolved, encoding = await done(asking.size, encoding_of, desk, asking.body, name)
    model = resolved.manifest.id
    request.state.told = {"model": model, "texts": len(encoding.texts)}
    deadline = until(asking.deadline_ms)
    vectors = await answered(request, desk.house.encode(resolved, encoding, deadline=deadline))
    desk.metrics.read(model, vectors)
    return vectors


def until(deadline_ms: float | None) -> float | None:
    """A deadline as `time.monotonic` will have it."""
    return None if deadline_ms is None else time.monotonic() + deadline_ms / 1e3


def headers(vectors: Vectors) -> dict[str, str]:
    """How many of the texts had been read before, and were not computed again."""
    return {"X-Jumar-Cache-Hits": str(vectors.hits)}


def usage(vectors: Vectors) -> dict[str, int]:
    """The count of tokens, under OpenAI's names and the model runtime's."""
    count = sum(vectors.tokens)
    openai = {"prompt_tokens": count, "total_tokens": count}
    return {**openai, "input_tokens": count, "output_tokens": 0}


def config_of(options: ReadOptions) -> dict[str, Any]:
    """The model's keys that options set."""
    window = options.window
    named = {
        "overflow": options.overflow,
        "max_tokens": options.max_tokens,
        "window_tokens": window and window.tokens,
        "window_overlap": window and window.overlap,
    }
    return {key: value for key, value in named.items() if value is not None}


def written(content: Mapping[str, Any]) -> str:
    """An answer as JSON; raises InvalidModelOutput where one of its numbers is none."""
    try:
        return json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:
        raise InvalidModelOutput("The answer has NaN or infinity in it.") from error


async def done(size: int, work: Callable[..., T], *given: Any) -> T:
    """Do it here for few texts: a thread would cost more than the work. Many texts must not keep
    others waiting.
    """
    return work(*given) if size <= _FEW else await run_in_threadpool(work, *given)


def encoding_of(
    desk: Desk, body: GenerateBody, request_id: str
) -> tuple[ResolvedRequest, Encoding]:
    """What is to be read, checked as for `/v1/generate`."""
    resolved = catalog.resolve(desk.request(body, request_id))
    inputs: Mapping[str, Any] = family_of(resolved.manifest).prepare(resolved)
    beside = {key: inputs[key] for key in resolved.spec.inputs if key in inputs and key != "texts"}
    return resolved, Encoding(inputs["texts"], body.config, beside)

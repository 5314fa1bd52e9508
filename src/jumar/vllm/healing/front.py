"""What callers speak to: it passes requests on, and outlives the engine.

A request that got no answer yet when the engine failed waits for the next one and is asked again,
once. What was being streamed ends with an error event: half an answer is never called a whole one,
nor half an event an event. What comes from an engine that was told to end is half an answer too: it
may be what it had when it stopped.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import JumarError, NotReady, RunFailed
from jumar.vllm.healing.child import Serving
from jumar.vllm.healing.healing import Healing
from jumar.vllm.healing.program import Asked

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host",
     "content-length", "proxy-authenticate", "proxy-authorization"}
)  # fmt: skip
"""Headers of one connection (RFC 9110, 7.6.1), and those that are made anew."""

Forget = Callable[[], object]

DYING_S = 8.0
"""How long an engine that failed takes to end."""


def app(healing: Healing, *, hold_s: float = 600.0) -> Starlette:
    """The application; `hold_s` is how long a request waits while the engine is found out."""
    import httpx
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    # To this machine, past its proxies, and for as many callers as there are: httpx has 100. Each
    # has a connection of its own: after some errors vLLM closes one without saying so.
    limits = httpx.Limits(max_keepalive_connections=0)
    client = httpx.AsyncClient(timeout=None, trust_env=False, limits=limits)
    numbers = count()

    async def health(request: Request) -> Response:
        """200 only while a proven engine answers."""
        return JSONResponse(healing.as_dict(), 200 if healing.state == "ready" else 503)

    async def passed(request: Request) -> Response:
        body = await request.body()
        number = next(numbers)
        if request.method == "POST":
            healing.asked[number] = Asked(request.url.path, _json(body))
        forget = partial(healing.asked.pop, number, None)
        try:
            return await _answered(healing, client, request, body, hold_s, forget)
        except JumarError as error:
            forget()
            return JSONResponse(error.envelope(), 503)
        except BaseException:
            forget()  # who is not waited for any more must not make an idle engine look hung
            raise

    @asynccontextmanager
    async def open_until_the_end(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    every = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"]
    return Starlette(
        routes=[
            Route("/health", health),
            Route("/jumar/health", health),
            Route("/{path:path}", passed, methods=every),
        ],
        lifespan=open_until_the_end,
    )


async def _answered(
    healing: Healing, client: Any, request: Request, body: bytes, hold_s: float, forget: Forget
) -> Response:
    """The engine's answer; that of the next engine where the first gave none."""
    from starlette.responses import Response, StreamingResponse

    class Passed(StreamingResponse):
        """Forgets the request however it ends, also where the caller goes before the first byte."""

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            try:
                await super().__call__(scope, receive, send)
            finally:
                forget()
                await answer.aclose()

    past = 0
    for _ in range(2):
        serving = await healing.settled(past, hold_s)
        if serving is None:
            break
        past = healing.starts
        if (told := await _asked(client, serving, request, body)) is None:
            continue
        answer, whole = told
        if healing.stopping:
            await answer.aclose()
            break
        kept = {k: v for k, v in answer.headers.items() if k.lower() not in HOP_BY_HOP}
        if whole is None:
            return Passed(_events(answer, healing), answer.status_code, kept)
        forget()
        return Response(whole, answer.status_code, kept)
    if healing.stopping:
        raise _stopping()
    raise RunFailed(
        f"The engine did not answer: {healing.reason or healing.state}.",
        hint="GET /jumar/health says how it goes.",
    )


async def _asked(
    client: Any, serving: Serving, request: Request, body: bytes
) -> tuple[Any, bytes | None] | None:
    """The answer of one engine, and its body where it is no stream; None where the engine is
    ending.

    Raises:
        RunFailed: the engine is well, and gave no answer.
    """
    import httpx

    headers = [(k, v) for k, v in request.headers.items() if k.lower() not in HOP_BY_HOP]
    address = (
        httpx.URL(serving.address)
        .join(request.url.path)
        .copy_with(query=request.url.query.encode() or None)
    )
    built = client.build_request(request.method, address, headers=headers, content=body)
    try:
        answer = await client.send(built, stream=True)
        streamed = answer.headers.get("content-type", "").startswith("text/event-stream")
        whole = None if streamed else b"".join([part async for part in answer.aiter_raw()])
    except httpx.TransportError as error:
        if not await _ending(serving, client):
            raise RunFailed(f"The engine runs, and gave no answer: {error!r}.") from error
        return None
    if answer.status_code >= 500 and await _ending(serving, client):
        await answer.aclose()
        return None
    return answer, whole


async def _ending(serving: Serving, client: Any) -> bool:
    """Whether an engine that did not answer well is ending: one that is says so in its health."""
    return not await serving.healthy(client) and await serving.ended(DYING_S) is not None


async def _events(answer: Any, healing: Healing) -> AsyncIterator[bytes]:
    """Whole events, and one more that tells where the engine failed or ended before the last."""
    import httpx

    begun = b""
    try:
        async for part in answer.aiter_raw():
            if healing.stopping:
                yield _event(_stopping())
                return
            whole, end, begun = (begun + part).rpartition(b"\n\n")
            if end:
                yield whole + end
        yield begun
    except httpx.TransportError as error:
        failed = RunFailed(f"The engine failed while it answered: {error}.")
        yield _event(_stopping() if healing.stopping else failed)


def _stopping() -> NotReady:
    return NotReady("This server is stopping.", hint="Ask the next one.")


def _event(error: JumarError) -> bytes:
    return b"data: " + json.dumps(error.envelope()).encode() + b"\n\n"


def _json(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = json.loads(body)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}

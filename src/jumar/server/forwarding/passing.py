"""A request on its way to another server, and its answer on the way back, chunk by chunk."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from jumar import catalog
from jumar.contracts.errors import (
    Cancelled,
    InvalidRequest,
    JumarError,
    NotPermitted,
    Overloaded,
    UnknownModel,
    UnsupportedTask,
)
from jumar.runtime.families.remote.client import Answer, Client, Raw
from jumar.runtime.families.remote.refusals import message_of, refusal
from jumar.runtime.families.remote.service import Service
from jumar.server import outward
from jumar.server.forwarding.surfaces import Fields, Surface
from jumar.server.forwarding.upstreams import SPEECH, Upstream, Upstreams
from jumar.server.tracing import TRACEPARENT, Span
from jumar.server.wire import json_of

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]

_EVENTS = "text/event-stream"


class Forwarder:
    """The upstreams of a server, with connections that stay open from request to request."""

    def __init__(self, upstreams: Upstreams) -> None:
        self.upstreams = upstreams
        self._own = frozenset(catalog.names())
        self._clients = {
            one.service: Client(one.service, log.warning, refused) for one in upstreams
        }

    def upstream(self, name: str, surface: Surface) -> Upstream | None:
        """Who answers for a model on this surface; None: this server itself."""
        if name in self.upstreams.named:
            return self.upstreams.named[name]
        if surface.speaks and (name == SPEECH or name not in self._own):
            return self.upstreams.speech
        return None

    def client(self, service: Service) -> Client:
        """Connections to the service of an upstream."""
        return self._clients[service]

    async def close(self) -> None:
        """Give the connections up."""
        for client in self._clients.values():
            await client.__aexit__(None, None, None)


def forwarded(surface: Surface, local: Handler) -> Handler:
    """A handler that passes on what is for an upstream, and leaves everything else to `local`."""

    async def handler(request: Request) -> Response:
        forwarder: Forwarder = request.app.state.forwarder
        if not forwarder.upstreams:
            return await local(request)
        fields = await _fields(request)
        asked = fields.get("model")
        name = request.app.state.desk.model(asked) if isinstance(asked, str) else ""
        upstream = forwarder.upstream(name, surface) if name else None
        if upstream is None:
            return await local(request)
        _own_data_only(fields, surface)
        request.state.told = {"model": name, "upstream": upstream.service.url}
        span = request.app.state.desk.tracing.upstream(
            request.state.request_id, request.headers, upstream.service.url
        )
        body = await _body(request, fields, name, upstream, span)
        return Passing(request, forwarder.client(upstream.service), surface, fields, body, span)

    return handler


def elsewhere(surface: Surface) -> Handler:
    """A surface that only upstreams have: the handler for all other models."""

    async def handler(request: Request) -> Response:
        name = (await json_of(request)).get("model")
        if not isinstance(name, str):
            raise InvalidRequest("The body names no model.", param="model")
        manifest = request.app.state.desk.manifest(name)
        others = ", ".join(request.app.state.forwarder.upstreams.named) or "there are none"
        raise UnsupportedTask(
            f"{manifest.id} does not do {surface.what}. It does {', '.join(manifest.tasks)}.",
            hint=f"Models of other servers do: {others}.",
            param="model",
        )

    return forwarded(surface, handler)


class Passing(Response):
    """An answer that another server is making.

    A caller who goes away ends the request there, at any moment. An answer that breaks off there
    breaks off here too: the connection is closed without the end, and a stream of events has the
    error as its last one.
    """

    def __init__(
        self, request: Request, client: Client, surface: Surface, fields: Fields, body: Raw,
        span: Span,
    ) -> None:  # fmt: skip
        super().__init__()
        self._span = span
        self._request = request
        self._client = client
        self._surface = surface
        self._expected = surface.expected(fields)
        self._body = body
        self._begun = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the answer on for as long as both sides are there."""
        passing = asyncio.ensure_future(self._pass_on(send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait({passing, gone}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                return passing.result()
            self._request.state.told["gone"] = True
            if not self._begun:
                raise Cancelled("The caller has gone.")
        finally:
            for task in (passing, gone):
                task.cancel()
            await asyncio.gather(passing, gone, return_exceptions=True)

    async def _pass_on(self, send: Send) -> None:
        failed: str | None = "the caller has gone"
        try:
            async with self._client.stream(
                self._surface.route, self._body, self._expected
            ) as answer:
                await self._begin(answer, send)
                async for chunk in answer:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
            failed = None
        except JumarError as error:
            failed = error.message
            error.hint = None  # it speaks to whoever wrote the address down
            if not self._begun:
                raise
            log.warning("%s: %s", self._surface.route, error)
            if self._expected.what == "event stream":
                last = f"data: {json.dumps(outward.envelope(error))}\n\n".encode()
                await send({"type": "http.response.body", "body": last, "more_body": True})
            self._request.state.told["broke_off"] = True
        finally:
            self._span.end(f"upstream {self._surface.route}", failed)

    async def _begin(self, answer: Answer, send: Send) -> None:
        headers = [
            (b"content-type", answer.media_type.encode("latin-1") or b"application/octet-stream"),
            (b"x-jumar-device", b"remote"),
        ]
        if answer.media_type.startswith(_EVENTS):
            headers += [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        self._begun = True


def refused(service: Service, status: int, text: str) -> JumarError:
    """A status other than 200 as callers see it: here the name of the model is the caller's."""
    said = message_of(text) or "nothing else"
    if status == 404:
        return UnknownModel(f"{service} does not have that (404): {said}", param="model")
    if status == 429:
        return Overloaded(f"{service} has too much to do: {said}")
    return refusal(service, status, text)


async def _fields(request: Request) -> Fields:
    """The fields of the body, files left out. The body stays there to be read again."""
    await request.body()
    if not _is_form(request):
        return await json_of(request)
    form = await request.form()
    return {name: value for name, value in form.items() if isinstance(value, str)}


async def _body(request: Request, fields: Fields, name: str, upstream: Upstream, span: Span) -> Raw:
    """The body as it came; the model's name alone is put right where it is another there."""
    headers = {"X-Request-ID": request.state.request_id}
    if span.traceparent is not None:
        headers[TRACEPARENT] = span.traceparent
    kind = request.headers.get("content-type", "application/json")
    there = upstream.model or (None if name == SPEECH else name)
    if there == fields.get("model"):
        return Raw(await request.body(), {**headers, "Content-Type": kind})
    if _is_form(request):
        return await _renamed_form(request, there, headers)
    renamed = {**fields, "model": there}
    if there is None:
        del renamed["model"]  # the service has one, or says that it wants a name
    return Raw(json.dumps(renamed).encode(), {**headers, "Content-Type": "application/json"})


async def _renamed_form(request: Request, there: str | None, headers: dict[str, str]) -> Raw:
    import httpx

    parts: list[tuple[str, Any]] = []
    for name, value in (await request.form()).multi_items():
        if isinstance(value, str):
            parts.append((name, (None, there or value if name == "model" else value)))
        else:
            parts.append((name, (value.filename, await value.read(), value.content_type)))
    made = httpx.Request("POST", "http://upstream", files=parts)
    return Raw(made.read(), {**headers, "Content-Type": made.headers["Content-Type"]})


def _is_form(request: Request) -> bool:
    return request.headers.get("content-type", "").startswith("multipart/form-data")


def _own_data_only(fields: Fields, surface: Surface) -> None:
    for name in surface.fetched:
        value = fields.get(name)
        if value is not None and not str(value).startswith("data:"):
            raise NotPermitted(
                f"{name} names a file or an address of a server's.",
                hint="Send the content: data:audio/wav;base64,…",
                param=name,
            )


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue

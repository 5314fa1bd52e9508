"""What surrounds every route: a name for the request and a line in the log, keys, bounds."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from jumar.contracts.errors import JumarError, NotPermitted, RequestTooLarge, Unauthenticated
from jumar.server.page.shell import OPEN
from jumar.server.settings import LOOPBACK, Keys
from jumar.server.tracing import TRACEPARENT, Span, Tracing
from jumar.server.wire import number_of, refusal

access = logging.getLogger("jumar.access")

REQUEST_ID = "x-request-id"
OPEN_TO_ALL = frozenset({"/health", "/health/live", "/healthz", "/readyz"})
"""Probes have no key, and learn nothing but whether the server is well."""
UNTRACED = OPEN_TO_ALL | {"/metrics"}
"""What comes every few seconds, and says nothing of any request."""
POLLED = "/page/"
"""What an open page asks for every few seconds, and nobody wants to read of."""

_as_json = json.JSONEncoder(ensure_ascii=False).encode
_ID = re.compile(r"[\w.:/+=-]{1,128}")

Seen = Callable[[str, str, int, float], None]
"""Route, method, status, seconds."""


class Trail:
    """Names each request (the caller's `X-Request-ID` or a new one), and logs how it ended."""

    def __init__(self, app: ASGIApp, seen: Seen, tracing: Tracing) -> None:
        self._app = app
        self._seen = seen
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        name = given if _ID.fullmatch(given) else f"req_{uuid4().hex}"
        scope.setdefault("state", {})["request_id"] = name
        begun, status = time.perf_counter(), 500
        unasked = scope["path"] in UNTRACED or scope["path"].startswith(POLLED)
        tracing = Tracing() if unasked else self._tracing
        span = tracing.asked(name, scope.get("method", "WEBSOCKET"), headers)

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
                given_back = MutableHeaders(scope=message)
                given_back[REQUEST_ID] = name
                if span.traceparent is not None:
                    given_back[TRACEPARENT] = span.traceparent
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            await self._app(scope, receive, named)
        finally:
            self._tell(scope, name, status, time.perf_counter() - begun)
            _ended(span, scope, status)

    def _tell(self, scope: Scope, name: str, status: int, seconds: float) -> None:
        route = scope["state"].get("route", "other")
        method = scope.get("method", "WEBSOCKET")
        self._seen(route, method, status, seconds)
        line: dict[str, Any] = {
            "request_id": name,
            "method": method,
            "path": scope["path"],
            "status": status,
            "ms": round(seconds * 1e3, 2),
            "client": (scope.get("client") or ["local"])[0],
        }
        line.update(scope.get("state", {}).get("told", {}))
        usual = scope["path"].startswith(POLLED) and status < 400
        level = logging.DEBUG if usual else logging.INFO
        if access.isEnabledFor(level):  # made here: a logger would look for who called it
            access.handle(
                logging.LogRecord(access.name, level, __file__, 0, _as_json(line), None, None)
            )


class Visitors:
    """Refuses browsers that a page of another site leads here (its `Origin` is not this host), and
    with `only_here` those that were told that this machine has another name (DNS rebinding).
    """

    def __init__(self, app: ASGIApp, only_here: bool) -> None:
        self._app = app
        self._only_here = only_here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on who comes by himself."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        host, origin = headers.get("host", ""), headers.get("origin")
        elsewhere = origin is not None and origin.partition("://")[2] != host
        if not elsewhere and not (self._only_here and _name(host) not in LOOPBACK):
            await self._app(scope, receive, send)
            return
        error = NotPermitted(
            "A page of another site may not ask this server.",
            hint="With --api-key-file or --no-auth it answers to any name of this machine.",
        )
        await _refuse(error, scope, receive, send)


class Door:
    """Asks for a key, over HTTP and WebSocket alike."""

    def __init__(self, app: ASGIApp, keys: Keys | None, page: bool = False) -> None:
        self._app = app
        self._keys = keys
        self._open = OPEN_TO_ALL | (OPEN if page else frozenset())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on who has a key."""
        asked = scope["type"] in ("http", "websocket") and scope["path"] not in self._open
        if self._keys is None or not asked:
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        kind, _, bearer = headers.get("authorization", "").partition(" ")
        shown = headers.get("x-api-key") or (bearer.strip() if kind.lower() == "bearer" else "")
        if self._keys.admit(shown):
            await self._app(scope, receive, send)
            return
        what = "This API key is not known." if shown else "No API key was given."
        await _refuse(Unauthenticated(what, hint="Authorization: Bearer KEY"), scope, receive, send)


class Bounds:
    """Refuses a body over the limit, by its length where that is said, else as it comes."""

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what is small enough."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        too_large = RequestTooLarge(
            f"The body is larger than {self._limit:,} bytes.", hint="--max-request-bytes"
        )
        said = number_of(Headers(scope=scope).get("content-length", ""))
        if said is not None and said > self._limit:
            await _refuse(too_large, scope, receive, send)
            return
        came = 0

        async def counted() -> Message:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > self._limit:
                raise too_large
            return message

        await self._app(scope, counted, send)


def _ended(span: Span, scope: Scope, status: int) -> None:
    if not span.recorded:
        return
    told = scope["state"].get("told", {})
    route, method = scope["state"].get("route", "other"), scope.get("method", "WEBSOCKET")
    span.end(
        f"{method} {route}",
        f"HTTP {status}" if status >= 500 else None,
        **{"http.route": route, "http.response.status_code": status, "url.path": scope["path"]},
        **{f"jumar.{key}": value for key, value in told.items()},
    )


@lru_cache(maxsize=256)
def _name(host: str) -> str | None:
    """The name in a Host header, without the port; None where it is no such header."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


async def _refuse(error: JumarError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await WebSocket(scope, receive, send).send_denial_response(refusal(error))
    else:
        await refusal(error)(scope, receive, send)

"""The application: routes, what surrounds them, and what runs beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Receive, Scope, Send

from jumar.contracts.errors import JumarError
from jumar.server.asgi import Bounds, Door, Trail, Visitors
from jumar.server.desk import RECOVER_S, SWEEP_S, Desk
from jumar.server.forwarding.passing import Forwarder
from jumar.server.machine import WATCH_S
from jumar.server.routes import routes
from jumar.server.wire import on_any_error, on_http_error, on_jumar_error

log = logging.getLogger(__name__)


def application(desk: Desk) -> Starlette:
    """The ASGI application of a desk. Whoever made the desk closes it."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(desk.recover)
        app.state.forwarder = Forwarder(desk.settings.upstreams)
        beside = [
            asyncio.ensure_future(_every(SWEEP_S, desk.sweep)),
            asyncio.ensure_future(_every(RECOVER_S, desk.recover)),
            asyncio.ensure_future(_every(WATCH_S, desk.machine.devices)),
        ]
        try:
            yield
        finally:
            for task in beside:
                task.cancel()
            await app.state.forwarder.close()

    known = routes(page=desk.settings.page)
    app = Starlette(
        routes=[Directory(known), *known],
        lifespan=life,
        middleware=[
            Middleware(Trail, seen=desk.metrics.seen, tracing=desk.tracing),
            Middleware(Visitors, only_here=desk.settings.only_here),
            Middleware(Door, keys=desk.settings.keys, page=desk.settings.page),
            Middleware(Bounds, limit=desk.settings.max_request_bytes),
        ],
        exception_handlers={
            JumarError: on_jumar_error,
            HTTPException: on_http_error,
            Exception: on_any_error,
        },
    )
    app.state.desk = desk
    return app


class Directory(BaseRoute):
    """Looks a route up by its path, where that has no name in it: a router tries all in turn."""

    def __init__(self, known: Iterable[BaseRoute]) -> None:
        plain = (one for one in known if isinstance(one, Route) and not one.param_convertors)
        self._routes = {route.path: route for route in plain}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """What the route says; none where there is none."""
        route = self._routes.get(scope["path"]) if scope["type"] == "http" else None
        return (Match.NONE, {}) if route is None else route.matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on to it."""
        await self._routes[scope["path"]].handle(scope, receive, send)


async def _every(seconds: float, do: Callable[[], object]) -> None:
    """Now and then, in a thread; what fails is tried again the next time."""
    while True:
        try:
            await run_in_threadpool(do)
        except (JumarError, OSError):
            log.exception("The server's %s failed.", do.__name__)
        await asyncio.sleep(seconds)

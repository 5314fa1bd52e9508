"""The application: routes, what surrounds them, and what runs beside them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from jumar.contracts.errors import JumarError
from jumar.server.asgi import Bounds, Door, Trail, Visitors
from jumar.server.desk import SWEEP_S, Desk
from jumar.server.forwarding.passing import Forwarder
from jumar.server.routes import routes
from jumar.server.wire import on_any_error, on_http_error, on_jumar_error

log = logging.getLogger(__name__)


def application(desk: Desk) -> Starlette:
    """The ASGI application of a desk. Whoever made the desk closes it."""

    @asynccontextmanager
    async def life(app: Starlette) -> AsyncIterator[None]:
        await run_in_threadpool(desk.recover)
        app.state.forwarder = Forwarder(desk.settings.upstreams)
        sweeping = asyncio.ensure_future(_sweep(desk))
        try:
            yield
        finally:
            sweeping.cancel()
            await app.state.forwarder.close()

    app = Starlette(
        routes=routes(page=desk.settings.page),
        lifespan=life,
        middleware=[
            Middleware(Trail, seen=desk.metrics.seen),
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


async def _sweep(desk: Desk) -> None:
    """Now and then, forget what is old."""
    while True:
        try:
            await run_in_threadpool(desk.sweep)
        except (JumarError, OSError):
            log.exception("What is too old could not be taken away.")
        await asyncio.sleep(SWEEP_S)

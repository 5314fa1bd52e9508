"""The gate before a server of vLLM: it listens to nobody before its golden answers matched.

vLLM takes middleware by its path. This one does its work while the application starts, which is
before the first connection is accepted; afterwards everything passes through it untouched.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from jumar.contracts.errors import JumarError
from jumar.vllm.healing.goldens import hold, told

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

log = logging.getLogger("vllm.jumar")


class Gate:
    """Middleware: asks the engine its golden requests when the application starts."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """ASGI."""
        if scope["type"] != "lifespan":
            await self.app(scope, receive, send)
            return
        try:
            await hold(scope["app"].state.engine_client)
        except Exception as error:
            if isinstance(error, JumarError):
                message = told(error)
                log.error("%s", message)
            else:
                message = f"Golden answers could not be asked: {error!r}"
                log.error("%s", message, exc_info=error)
            atexit.register(_ends_badly)
            await receive()
            await send({"type": "lifespan.startup.failed", "message": message})
            return
        await self.app(scope, receive, send)


def _ends_badly() -> None:
    """vLLM ends with exit code 0 where its application does not start. Nothing is left to end."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)

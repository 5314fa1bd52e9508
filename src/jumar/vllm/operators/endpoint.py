"""`GET /jumar/operators` in vLLM's API server: each worker is asked what it bound.

vLLM takes a middleware by its path and has no other place for a route of a plugin. This one is
plain ASGI: requests for other paths pass through it untouched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from jumar.contracts.errors import JumarError, NotReady, RunFailed

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]

PATH = "/jumar/operators"
METHOD = "jumar_operators"
"""The method of Jumar's worker that answers."""

PATIENCE_S = 30.0
"""A worker answers between two steps; one that does not within this is not computing either."""


class Endpoint:
    """Middleware: answers one path, passes everything else on."""

    def __init__(self, app: App) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """ASGI."""
        path = scope.get("path", "").removeprefix(scope.get("root_path", ""))
        if scope["type"] != "http" or path != PATH or scope["method"] not in ("GET", "HEAD"):
            await self.app(scope, receive, send)
            return
        from starlette.responses import JSONResponse

        try:
            content, status = await _answer(scope["app"].state.engine_client), 200
        except JumarError as error:
            content, status = error.envelope(), error.http_status
        await JSONResponse(content, status)(scope, receive, send)


async def _answer(client: Any) -> dict[str, Any]:
    """What every worker says.

    Raises:
        NotReady: nobody answers.
        RunFailed: a worker could not say it: it reads the evidence anew, which may be damaged.
    """
    from vllm.v1.engine.exceptions import EngineDeadError

    from vllm import __version__

    try:
        said = await asyncio.wait_for(client.collective_rpc(METHOD), PATIENCE_S)
    except asyncio.TimeoutError as error:
        raise NotReady(f"The workers did not answer within {PATIENCE_S:.0f} s.") from error
    except EngineDeadError as error:
        raise NotReady("The engine has ended.") from error
    except Exception as error:  # vLLM raises the bare class, with a worker's words
        raise RunFailed(str(error)) from error
    return {"vllm": __version__, "processes": said}

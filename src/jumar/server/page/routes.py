"""The addresses of the page. None of them changes anything, and none is in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from jumar.server.page import fragments, shell

PAGE: dict[str, Callable[[Request], Awaitable[Response]]] = {
    "/": shell.shell,
    **dict.fromkeys(shell.FILES, shell.file),
    "/page/state": fragments.state,
    "/page/home": fragments.home,
    "/page/now": fragments.now,
    "/page/models/{model}": fragments.model,
    "/page/cards/{model}": fragments.card,
    "/page/jobs/{job}": fragments.job,
}

"""The page itself and its files: open to all, since there is nothing of anybody in them."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from jumar import __version__
from jumar.reporting.html import TEMPLATES
from jumar.server.page.drawing import HEADERS, HERE, drawn


class File(NamedTuple):
    """A file of the page: the files that it is put together from."""

    media_type: str
    parts: tuple[str, ...]


FILES = {
    "/page/page.css": File("text/css", (f"{TEMPLATES}/page.css", "static/page.css")),
    "/page/page.js": File("text/javascript", ("static/page.js",)),
    "/page/htmx.js": File("text/javascript", ("static/htmx.min.js", "static/idiomorph-ext.min.js")),
    "/page/icon.svg": File("image/svg+xml", ("static/icon.svg",)),
}
OPEN = frozenset({"/", *FILES})
"""What browsers ask for before anybody has given a key: they send none with an address."""


async def shell(request: Request) -> Response:
    """The frame that everything else is fetched into."""
    html = drawn("shell.html.j2", version=__version__, edition=edition())
    return HTMLResponse(html, headers={**HEADERS, "Cache-Control": "no-cache"})


async def file(request: Request) -> Response:
    """One of its files. Their addresses change with them, so that browsers may keep them."""
    path = request.url.path
    headers = {**HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
    return Response(content(path), media_type=FILES[path].media_type, headers=headers)


@cache
def content(path: str) -> bytes:
    """The bytes of a file."""
    return b"\n".join((HERE / part).read_bytes() for part in FILES[path].parts)


@cache
def edition() -> str:
    """What changes with the files."""
    return hashlib.sha256(b"".join(map(content, FILES))).hexdigest()[:12]

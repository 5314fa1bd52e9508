"""How a fragment is drawn: templates in which everything is escaped, and what browsers may do."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse

from jumar.reporting.html import environment

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' blob:",
        "media-src 'self' blob:",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
"""Only this server's own files: no script or style in the page, nothing from anywhere else.
`blob:` is what the page itself fetched, or what its visitor chose to send."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}

TONES = {
    "ready": "good",
    "succeeded": "good",
    "matched": "good",
    "free": "good",
    "in use": "busy",
    "starting": "busy",
    "loading": "busy",
    "warming": "busy",
    "running": "busy",
    "queued": "waits",
    "pending": "waits",
    "degraded": "warns",
    "unverified": "warns",
    "unknown": "warns",
    "failed": "bad",
    "closed": "bad",
    "not usable": "bad",
}
"""The colour of a state of a model, a job, goldens or a device; any other is grey."""


def fragment(template: str, **values: Any) -> HTMLResponse:
    """A piece of the page."""
    return HTMLResponse(drawn(template, **values), headers={**HEADERS, "Cache-Control": "no-store"})


def drawn(template: str, **values: Any) -> str:
    """The HTML of a template of this folder."""
    return _environment().get_template(template).render(**values)


def where(card: Mapping[str, Any]) -> str:
    """The device of a model's card as people are shown it: an emulated one says so."""
    emulated = str(card.get("device_class") or "").endswith("-emulated")
    return f"{card['device']}{' (emulated)' if emulated else ''}"


def clock(ms: int) -> str:
    """A moment as `<time>` has it; the page turns it into the visitor's own time."""
    return f"{datetime.fromtimestamp(ms / 1e3, timezone.utc):%Y-%m-%dT%H:%M:%SZ}"


def gib(mb: float) -> str:
    """Memory as `jumar devices` shows it."""
    return f"{mb / 1024:.1f} GiB"


@cache
def _environment() -> Environment:
    made = environment(HERE / "templates")
    made.filters["tone"] = lambda name: TONES.get(name, "rests")
    made.filters |= {"where": where, "clock": clock, "gib": gib}
    return made

"""What went wrong with a service, in its own words where it has some."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidRequest, JumarError, UpstreamFailed
from jumar.runtime.families.remote.service import CONNECT_S, Service

if TYPE_CHECKING:
    import aiohttp

CALLERS = (400, 413, 422)
"""Statuses that say: the request is wrong."""
TRY_AGAIN = (502, 503, 504)
"""Statuses of a service that is not there at the moment."""

_HINTS = {
    401: "It wants a key: api_key.",
    403: "The key (api_key) does not allow this there.",
    404: "Is server_url right, and is upstream_model the name of a model there?",
    429: "It has too much to do: try again later.",
}
_SHOWN = 500


def refusal(service: Service, status: int, text: str) -> JumarError:
    """What a status other than 200 means: the caller's fault, or the service's."""
    said = message_of(text) or "nothing else"
    if status in CALLERS:
        return InvalidRequest(f"{service} refuses the request ({status}): {said}")
    return UpstreamFailed(f"{service} answered {status}: {said}", hint=_HINTS.get(status))


def something_else(service: Service, what: str, text: str) -> UpstreamFailed:
    """A 200 whose body is empty, or no `what`."""
    if not text.strip():
        return UpstreamFailed(f"{service} answered 200 and nothing else.")
    if "\ufffd" in text or "\0" in text:
        return UpstreamFailed(f"{service} answered 200 with something that is no {what}.")
    return UpstreamFailed(f"{service} answered 200 with a text and no {what}: {message_of(text)}")


def unreachable(service: Service, error: aiohttp.ClientError) -> UpstreamFailed:
    """No answer at all."""
    import aiohttp

    hint = "Does it run there, and is server_url right?"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return UpstreamFailed(f"{service} was not reached within {CONNECT_S:g} s.", hint=hint)
    if isinstance(error, aiohttp.SocketTimeoutError):
        return UpstreamFailed(
            f"{service} was silent for {service.silence_s:g} s.",
            hint="idle_timeout is the longest silence.",
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return UpstreamFailed(f"{service} cannot be reached.", hint=hint)
    return UpstreamFailed(f"{service} did not answer.", hint=hint)


def cut_off(service: Service, error: aiohttp.ClientError) -> UpstreamFailed:
    """An answer that ended before its end."""
    import aiohttp

    if isinstance(error, aiohttp.SocketTimeoutError):
        return unreachable(service, error)
    return UpstreamFailed(f"{service} ended its answer before its end.")


def message_of(text: str) -> str:
    """The message in an error body: OpenAI's, vLLM's older one, FastAPI's, or the text itself."""
    try:
        said = _said(json.loads(text))
    except (ValueError, RecursionError):
        said = text
    said = " ".join(said.split())
    return said if len(said) <= _SHOWN else f"{said[:_SHOWN]}…"


def _said(body: Any) -> str:
    if isinstance(body, dict):
        for key in ("error", "message", "detail", "msg"):
            if body.get(key):
                return _said(body[key])
    if isinstance(body, list) and body:
        return "; ".join(_said(one) for one in body)
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)

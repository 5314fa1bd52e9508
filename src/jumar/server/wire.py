"""Bodies in and out: JSON, errors in the one envelope, callers that go away."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar.contracts.errors import (
    Cancelled,
    InvalidRequest,
    InvalidValue,
    JumarError,
    NotFound,
    Overloaded,
    UnknownKey,
    did_you_mean,
)
from jumar.server import outward

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

DEEPEST = 100
"""Levels of JSON in JSON, so that nothing that walks through a body runs out of stack."""

_TYPE = re.compile(r"str$|\w+\[")
"""What pydantic puts between a field of several types and what is wrong with one of them."""

_NUMBER = re.compile(r"[0-9]{1,18}")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")


class MethodNotAllowed(InvalidRequest):
    """The path exists, for another method."""

    http_status = 405


async def json_of(request: Request) -> dict[str, Any]:
    """The body as a JSON object.

    Raises:
        InvalidRequest: it is none.
        RequestTooLarge: it is over the limit (`asgi.Bounds`).
    """
    return object_of(await request.body(), "The body", hint="Content-Type: application/json")


def object_of(text: str | bytes, what: str, *, hint: str | None = None) -> dict[str, Any]:
    """A text as a JSON object: UTF-8, whole characters, not nested without end.

    Raises:
        InvalidRequest: it is anything else.
    """
    try:
        read = text if isinstance(text, str) else text.decode("utf-8-sig")
        payload = _JSON.decode(read)
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"{what} is no JSON: {error}.", hint=hint) from error
    if not isinstance(payload, dict):
        raise InvalidRequest(f"{what} is a JSON {type(payload).__name__}, not an object.")
    if _deeper(payload, DEEPEST):
        raise InvalidRequest(f"{what} is nested deeper than {DEEPEST} levels.")
    if _HALF.search(read):  # half a character, or both halves of one
        try:
            json.dumps(payload, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            raise InvalidRequest(f"{what} has half a character (a lone surrogate).") from error
    return payload


def number_of(text: str) -> int | None:
    """A whole number as callers write it in addresses and headers; None where it is none."""
    return int(text) if _NUMBER.fullmatch(text) else None


def limit_of(request: Request, *, otherwise: int, most: int) -> int:
    """How many a caller wants of a list: `limit`; raises InvalidValue."""
    limit = number_of(request.query_params.get("limit", str(otherwise)))
    if limit is None or not 1 <= limit <= most:
        raise InvalidValue(f"limit must be 1 to {most}.", param="limit")
    return limit


def checked(model: type[M], payload: dict[str, Any]) -> M:
    """The payload as a contract.

    Raises:
        UnknownKey: a field that it does not have; the hint names the nearest.
        InvalidRequest: a field is missing, or of the wrong type.
    """
    for key in payload:
        if key not in model.model_fields:
            raise UnknownKey(
                f"There is no field {key[:100]!r}.",
                hint=did_you_mean(key[:100], model.model_fields),
                param=key[:100],
            )
    try:
        return model.model_validate(payload)
    except ValidationError as error:
        found = error.errors()
        of_first = [one for one in found if one["loc"][:1] == found[0]["loc"][:1]]
        nearest = max(of_first, key=lambda one: len(one["loc"]))  # of several types: what fits most
        field = ".".join(str(part) for part in nearest["loc"] if not _TYPE.match(str(part)))
        if nearest["type"] == "extra_forbidden":
            known = _fields_of(model, nearest["loc"][:-1])
            hint = did_you_mean(str(nearest["loc"][-1])[:100], known) if known else None
            said = f"There is no field {field[:200]!r}."
            raise UnknownKey(said, hint=hint, param=field[:200]) from None
        raise InvalidRequest(f"{field}: {nearest['msg']}.", param=field) from None


def _fields_of(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The fields of a body inside another; none where it may be of several kinds."""
    for part in place:
        if (found := model.model_fields.get(str(part))) is None:
            return []
        kinds = get_args(found.annotation) or (found.annotation,)
        bodies = [one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)]
        if len(bodies) != 1:
            return []
        (model,) = bodies
    return list(model.model_fields)


def only_known(request: Request, known: Collection[str]) -> None:
    """Refuse what a caller asks of a list that it does not have: he would take it for narrowed.

    Raises:
        UnknownKey: naming the nearest.
    """
    for key in request.query_params:
        if key not in known:
            raise UnknownKey(
                f"There is nothing called {key[:100]!r} to ask for here.",
                hint=did_you_mean(key[:100], known),
                param=key[:100],
            )


def refusal(error: JumarError, **more: Any) -> JSONResponse:
    """An error as every face answers with it; `more` stands beside it in the body."""
    headers = {}
    if isinstance(error, Overloaded):
        headers["Retry-After"] = str(max(1, round(error.retry_after)))
    if error.http_status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({**outward.envelope(error), **more}, error.http_status, headers)


async def on_jumar_error(request: Request, error: Exception) -> Response:
    """Errors of the tree."""
    assert isinstance(error, JumarError)
    if error.http_status >= 500:
        trace = error if error.http_status == 500 else None  # the others say all that there is
        log.warning("%s %s: %s", request.method, request.url.path, error, exc_info=trace)
    return refusal(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """What Starlette refuses by itself: no such route, another method, a broken form."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404:
        return refusal(
            NotFound(f"There is nothing at {request.url.path}.", hint="GET /openapi.json")
        )
    kind = MethodNotAllowed if error.status_code == 405 else InvalidRequest
    response = refusal(kind(f"{request.method} {request.url.path}: {error.detail}."))
    response.headers.update(error.headers or {})
    return response


async def on_any_error(request: Request, error: Exception) -> Response:
    """A fault of the server: the log has it whole, the caller its name."""
    return refusal(
        JumarError("The server failed.", hint="Its log says more under this request id.")
    )


async def answered(
    request: Request, future: Future[T], stop: Callable[[], object] = lambda: None
) -> T:
    """Wait for an answer as long as the caller does; who goes away frees the place.

    Raises:
        Cancelled: the caller has gone; `stop` was called before.
        JumarError: the answer is an error.
    """
    asked = asyncio.wrap_future(future)
    gone = asyncio.ensure_future(_gone(request))
    gone.add_done_callback(lambda ended: asked.cancel())
    try:
        return await asked
    except asyncio.CancelledError:
        if gone.done():
            raise Cancelled("The caller has gone.") from None
        raise
    finally:
        gone.cancel()
        if not future.done():
            stop()
            future.cancel()


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        continue


def _deeper(payload: Any, levels: int) -> bool:
    level = [payload]
    for _ in range(levels):
        if not level:
            return False
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [value for values in inside for value in values if isinstance(value, dict | list)]
    return bool(level)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


_JSON = json.JSONDecoder(parse_constant=_no_constant)

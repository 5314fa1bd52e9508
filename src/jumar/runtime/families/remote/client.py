"""A service that answers with bytes, given out as they arrive.

async with Client(Service("http://127.0.0.1:8091")) as client:
    async with client.stream("/v1/audio/speech", Body({"input": "Hello."})) as answer:
        answer.media_type              # entered when the first bytes are here, and fit SOUND
        async for chunk in answer: ...

Until the first byte is here, a connection that fails and 502, 503, 504 are tried again; never
after it: what was given out cannot be taken back. Leaving the block closes the connection, which
tells the service to stop.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import JumarError, UpstreamFailed
from jumar.runtime.families.remote.expected import HEAD, SOUND, Expected
from jumar.runtime.families.remote.refusals import (
    TRY_AGAIN,
    cut_off,
    refusal,
    something_else,
    unreachable,
)
from jumar.runtime.families.remote.service import CONNECT_S, Service

if TYPE_CHECKING:
    import aiohttp

# Own lines and not a library's: waiting between two tries has to end when the caller cancels.
PAUSES_S = (0.25, 1.0)
"""Before the second and the third try, half to one and a half times as long."""
_SAID = 1 << 16


@dataclass(frozen=True)
class Body:
    """What is asked: JSON, or a form where there are `files` (name, content, media type)."""

    fields: Mapping[str, Any]
    files: Mapping[str, tuple[str, bytes, str]] | None = None

    def content(self) -> dict[str, Any]:
        """As arguments of an aiohttp request."""
        if self.files is None:
            return {"json": dict(self.fields)}
        import aiohttp

        form = aiohttp.FormData(quote_fields=False)
        for field, value in self.fields.items():
            form.add_field(field, str(value))
        for field, (name, data, mime) in self.files.items():
            form.add_field(field, data, filename=name, content_type=mime)
        return {"data": form}


@dataclass(frozen=True)
class Raw:
    """What is asked, byte for byte as a caller wrote it; `headers` name its media type."""

    data: bytes
    headers: Mapping[str, str]

    def content(self) -> dict[str, Any]:
        """As arguments of an aiohttp request."""
        return {"data": self.data, "headers": self.headers}


@dataclass(frozen=True)
class Answer:
    """What a service answers: iterate over it for the bytes."""

    media_type: str
    chunks: AsyncIterator[bytes]

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self.chunks


class Client:
    """A pool of connections to one service; made in an event loop, and used in `async with`.

    `told` hears, in a sentence, of each try that failed and is made again. `refuse` makes the error
    of a status other than 200 and its text.
    """

    def __init__(
        self,
        service: Service,
        told: Callable[[str], None] = lambda _: None,
        refuse: Callable[[Service, int, str], JumarError] = refusal,
    ) -> None:
        import aiohttp

        self._service = service
        self._told = told
        self._refuse = refuse
        # What is packed cannot be given out as it arrives.
        headers = {"Accept-Encoding": "identity"}
        if service.api_key is not None:
            headers["Authorization"] = f"Bearer {service.api_key}"
        # aiohttp: a request costs a third of httpx's CPU time, whose parser is Python.
        self._http = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers=headers,
            timeout=aiohttp.ClientTimeout(
                sock_connect=min(CONNECT_S, service.silence_s), sock_read=service.silence_s
            ),
            trust_env=not service.is_local,
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.close()

    @asynccontextmanager
    async def stream(
        self, route: str, body: Body | Raw, expected: Expected = SOUND
    ) -> AsyncIterator[Answer]:
        """POST `body`; the answer, once its first bytes are here and are what is expected.

        Raises:
            InvalidRequest: the service says that the request is wrong, in its own words.
            UpstreamFailed: it refused, failed, fell silent, or answered something else.
        """
        response, first, rest = await self._begun(route, body, expected)
        try:
            yield Answer(response.headers.get("content-type", ""), self._chunks(first, rest))
        finally:
            response.close()  # a connection whose answer was read to its end is in the pool by now

    async def _begun(
        self, route: str, body: Body | Raw, expected: Expected
    ) -> tuple[aiohttp.ClientResponse, bytes, AsyncIterator[bytes]]:
        import anyio

        for pause in (*PAUSES_S, None):
            try:
                return await self._attempt(route, body, expected)
            except _MayPass as passing:
                if pause is None:
                    raise passing.error from passing.__cause__
                pause *= 0.5 + random.random()
                self._told(f"{passing.error.message} Tried again after {pause:.1f} s.")
            await anyio.sleep(pause)
        raise AssertionError("the last pause is None")

    async def _attempt(
        self, route: str, body: Body | Raw, expected: Expected
    ) -> tuple[aiohttp.ClientResponse, bytes, AsyncIterator[bytes]]:
        import aiohttp

        try:
            response = await self._http.post(
                self._service.url + route, allow_redirects=False, **body.content()
            )
            try:
                rest = response.content.iter_any()
                if response.status != 200:
                    said = await _text(b"", rest)
                    error = self._refuse(self._service, response.status, said)
                    raise _maybe_passing(error, response.status)
                first = await _head(rest)
                if not expected.fits(first, response.headers.get("content-type", "")):
                    said = await _text(first, rest)
                    raise something_else(self._service, expected.what, said)
                return response, first, rest
            except BaseException:
                response.close()
                raise
        except aiohttp.ClientError as error:
            failed = unreachable(self._service, error)
            # A request that is slow may be at work; one whose connection broke is not.
            if isinstance(error, aiohttp.SocketTimeoutError):
                raise failed from error
            raise _MayPass(failed) from error

    async def _chunks(self, first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        import aiohttp

        yield first
        try:
            async for chunk in rest:
                yield chunk
        except aiohttp.ClientError as error:
            raise cut_off(self._service, error) from error


class _MayPass(Exception):
    """A failure that may be over soon."""

    def __init__(self, error: UpstreamFailed) -> None:
        super().__init__(error.message)
        self.error = error


def _maybe_passing(error: JumarError, status: int) -> Exception:
    return _MayPass(error) if isinstance(error, UpstreamFailed) and status in TRY_AGAIN else error


async def _head(rest: AsyncIterator[bytes]) -> bytes:
    """The first bytes, as soon as they are enough to tell what it is."""
    first = b""
    while len(first) < HEAD and (more := await anext(rest, b"")):
        first += more
    return first


async def _text(first: bytes, rest: AsyncIterator[bytes]) -> str:
    """The beginning of a text, as far as it can matter."""
    said = first
    async for chunk in rest:
        said += chunk
        if len(said) > _SAID:
            break
    return said[:_SAID].decode("utf-8", "replace")

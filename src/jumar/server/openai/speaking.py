"""Speech that leaves piece by piece, each as soon as it is spoken: as sound or as events."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import secrets
from collections.abc import Iterator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from jumar.contracts.errors import Cancelled, InvalidModelOutput, JumarError, OutputFailed
from jumar.contracts.results import GenerateResult, StageEventRecord
from jumar.server import outward
from jumar.server.openai.asking import Asked, result_of
from jumar.server.openai.bodies import SpeechBody

log = logging.getLogger(__name__)

RAW = "audio/pcm; rate={rate}; channels=1"
EVENTS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
PIECE = 1 << 15
"""Bytes of a finished file in one event."""

Pieces = asyncio.Queue[dict[str, Any] | None]
"""Data of `sound` events in their order; None after the last."""


def event(kind: str, **data: Any) -> bytes:
    """A server-sent event of OpenAI's."""
    return f"data: {json.dumps({'type': f'speech.audio.{kind}', **data})}\n\n".encode()


def told(sound: bytes, rate: int | None) -> Iterator[bytes]:
    """A finished sound as events. `usage` is left out: nobody counts tokens here."""
    for start in range(0, len(sound), PIECE):
        audio = base64.b64encode(sound[start : start + PIECE]).decode()
        yield event("delta", audio=audio, sample_rate=rate)
    yield event("done")


async def spoken(request: Request, one: Asked[SpeechBody]) -> Response:
    """The answer, once its first piece is there.

    Raises:
        JumarError: the run was refused, or has failed before.
    """
    one.config["stream"] = True
    # A run of a lost worker is done again: with this seed it says the same once more.
    one.config.setdefault("seed", secrets.randbelow(2**31))
    pieces: Pieces = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def hear(event: StageEventRecord) -> None:
        if event.event == "sound":
            loop.call_soon_threadsafe(pieces.put_nowait, event.data)

    running = asyncio.ensure_future(result_of(request, one, hear))
    running.add_done_callback(lambda _: pieces.put_nowait(None))
    first = await pieces.get()
    if first is None:
        await running
        raise InvalidModelOutput(f"{one.manifest.id} spoke, and told of no piece.")
    kind = Telling if one.body.stream_format == "sse" else Speaking
    return kind(first, pieces, running)


class Speaking(Response):
    """Sound that is still being made. Where it fails, the connection is closed without an end."""

    _last = b""

    def __init__(
        self, first: dict[str, Any], pieces: Pieces, running: asyncio.Future[GenerateResult]
    ) -> None:
        media_type, headers = self._kind(first)
        super().__init__(headers=headers, media_type=media_type)
        del self.headers["content-length"]
        self._first = first
        self._pieces = pieces
        self._running = running

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give out each piece once, in order; whether the caller is there, `running` looks."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        piece: dict[str, Any] | None = self._first
        given = 0
        while piece is not None:
            if piece["number"] > given:  # else the run was begun again
                given = piece["number"]
                data = self._written(piece)
                await send({"type": "http.response.body", "body": data, "more_body": True})
            piece = await self._pieces.get()
        try:
            await self._running
        except Cancelled:
            return
        except OutputFailed as error:  # of the file, which is written after the last piece
            log.warning("Speech of %d pieces was heard, and is not kept: %s", given, error)
        except JumarError as error:
            log.warning("Speech broke off after %d pieces: %s", given, error)
            if broken := self._broken(error):
                await send({"type": "http.response.body", "body": broken, "more_body": True})
            return
        await send({"type": "http.response.body", "body": self._last, "more_body": False})

    def _kind(self, first: dict[str, Any]) -> tuple[str, dict[str, str]]:
        return RAW.format(rate=first["rate"]), {}

    def _written(self, piece: dict[str, Any]) -> bytes:
        return base64.b64decode(piece["pcm"])

    def _broken(self, error: JumarError) -> bytes:
        return b""


class Telling(Speaking):
    """As events, whose last is the error where it fails."""

    _last = event("done")

    def _kind(self, first: dict[str, Any]) -> tuple[str, dict[str, str]]:
        return "text/event-stream", EVENTS

    def _written(self, piece: dict[str, Any]) -> bytes:
        return event("delta", audio=piece["pcm"], sample_rate=piece["rate"])

    def _broken(self, error: JumarError) -> bytes:
        return f"data: {json.dumps(outward.envelope(error))}\n\n".encode()

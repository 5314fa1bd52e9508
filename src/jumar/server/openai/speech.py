"""POST /v1/audio/speech, by a model of this server."""

from __future__ import annotations

import wave
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from jumar.contracts.errors import InvalidModelOutput
from jumar.contracts.results import Artifact
from jumar.server.openai.asking import Asked, asked, headers_of, result_of
from jumar.server.openai.bodies import SpeechBody
from jumar.server.openai.speaking import EVENTS, RAW, spoken, told
from jumar.server.wire import json_of

_DEFAULT = "mp3"
"""OpenAI's, for models that can write it."""


async def speech(request: Request) -> Response:
    """Sound as a file, or as OpenAI's events (`stream_format="sse"`); `pcm` is 16-bit, mono,
    little-endian, its rate in the media type or the event, and comes piece by piece where the model
    tells of its pieces.
    """
    one = asked(request.app.state.desk, SpeechBody, await json_of(request), ("text2audio",))
    body = one.body
    one.carry("input", "prompt", body.input)
    one.carry(
        "voice", "voice", body.voice, neutral=("default", one.manifest.id, *one.manifest.aliases)
    )
    one.carry("instructions", "instructions", body.instructions, neutral=("",))
    one.carry("speed", "speed", body.speed, neutral=(1.0,))
    strip = _carry_format(one)
    if strip and "stream" in one.spec.config and "sample_rate" not in one.config:
        return await spoken(request, one)
    result = await result_of(request, one)
    (sound,) = result.outputs
    if body.stream_format == "sse":
        read = _samples if strip else _content
        content = await run_in_threadpool(read, sound)
        headers = {**EVENTS, **headers_of(result)}
        return StreamingResponse(
            told(content, sound.sample_rate), media_type="text/event-stream", headers=headers
        )
    if strip:
        samples = await run_in_threadpool(_samples, sound)
        mime = RAW.format(rate=sound.sample_rate)
        return Response(samples, media_type=mime, headers=headers_of(result))
    return FileResponse(sound.path, media_type=sound.mime, headers=headers_of(result))


def _carry_format(one: Asked[SpeechBody]) -> bool:
    """Set the file format; True where the samples have to be taken out of a WAV file."""
    name = one.body.response_format
    if "response_format" not in one.spec.config:
        one.carry("response_format", "response_format", name, neutral=("wav", "pcm"))
        return name == "pcm"
    choices = one.spec.config["response_format"].choices
    if name is None and _DEFAULT in choices:
        name = _DEFAULT  # type: ignore[assignment]
    strip = name == "pcm" and "pcm" not in choices
    one.carry("response_format", "response_format", "wav" if strip else name)
    return strip


def _content(sound: Artifact) -> bytes:
    return Path(sound.path).read_bytes()


def _samples(sound: Artifact) -> bytes:
    try:
        with wave.open(sound.path, "rb") as file:
            return file.readframes(file.getnframes())
    except (wave.Error, EOFError) as error:
        raise InvalidModelOutput(f"{Path(sound.path).name} is no WAV file.") from error

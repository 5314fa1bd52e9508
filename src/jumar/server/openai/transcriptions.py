"""POST /v1/audio/transcriptions, by a model of this server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from jumar.contracts.results import Artifact
from jumar.server.forms import form_of, needed
from jumar.server.openai.asking import Asked, asked, headers_of, result_of
from jumar.server.openai.bodies import TranscriptionBody

_AS_JSON = ("json", "verbose_json")


async def transcriptions(request: Request) -> Response:
    """What is said in a sound file: as JSON, text, or captions."""
    async with form_of(request, {"file": "audio"}, ("timestamp_granularities",)) as (
        fields,
        inputs,
    ):
        one = asked(request.app.state.desk, TranscriptionBody, fields, ("audio2text",))
        needed(inputs, "audio", "file")
        one.inputs.update(inputs)
        one.fields["audio"] = "file"
        _carry(one)
        result = await result_of(request, one)
    form, (text,) = one.body.response_format, result.outputs
    if form not in _AS_JSON:
        kind = f"{text.mime}; charset=utf-8"
        return FileResponse(text.path, media_type=kind, headers=headers_of(result))
    shown = await run_in_threadpool(_json, text, one.body)
    return JSONResponse(shown, headers=headers_of(result))


def _carry(one: Asked[TranscriptionBody]) -> None:
    body = one.body
    one.carry("language", "language", body.language)
    one.carry("prompt", "prompt", body.prompt, neutral=("",))
    one.carry("temperature", "temperature", body.temperature, neutral=(0.0,))
    one.carry("timestamp_granularities", "word_timestamps", _by_word(body) or None)
    name = "json" if body.response_format in _AS_JSON else body.response_format
    one.carry("response_format", "response_format", name)


def _by_word(body: TranscriptionBody) -> bool:
    return "word" in body.timestamp_granularities


def _json(text: Artifact, body: TranscriptionBody) -> dict[str, Any]:
    """The text; verbose also its segments and words. What the model does not know of a segment
    (OpenAI has `avg_logprob` and others) is left out."""
    written: dict[str, Any] = json.loads(Path(text.path).read_text(encoding="utf-8"))
    shown = {
        "text": written["text"],
        "usage": {"type": "duration", "seconds": written["duration"]},
    }
    if body.response_format == "json":
        return shown
    segments = written["segments"]
    words = [word for segment in segments for word in segment.pop("words", ())]
    return {
        "task": "transcribe",
        "language": written["language"],
        "duration": written["duration"],
        **shown,
        "segments": [{"id": place, **one} for place, one in enumerate(segments)],
        **({"words": words} if _by_word(body) else {}),
    }

"""Routes that can be passed on: what their answers have to be, and what callers may not name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jumar.runtime.families.remote.expected import EVENTS, JSON, WORDS, Expected, sound

Fields = Mapping[str, Any]


@dataclass(frozen=True)
class Surface:
    """One route. `expected` follows from the fields of a request.

    `fetched`: fields whose value a server would fetch or open; only `data:` addresses pass.
    `speaks`: models with unknown names are the speech service's.
    """

    route: str
    what: str
    expected: Callable[[Fields], Expected]
    fetched: tuple[str, ...] = ()
    speaks: bool = False


def _json(fields: Fields) -> Expected:
    return JSON


def _maybe_streamed(fields: Fields) -> Expected:
    return EVENTS if fields.get("stream") in (True, "true") else JSON


def _spoken(fields: Fields) -> Expected:
    if fields.get("stream_format") == "sse":
        return EVENTS
    name = fields.get("response_format")
    return sound(name if isinstance(name, str) else None)


def _written(fields: Fields) -> Expected:
    plain = fields.get("response_format") in ("text", "srt", "vtt")
    return WORDS if plain else _maybe_streamed(fields)


CHAT = Surface("/v1/chat/completions", "chat", _maybe_streamed)
COMPLETIONS = Surface("/v1/completions", "completions", _maybe_streamed)
EMBEDDINGS = Surface("/v1/embeddings", "embeddings", _json)
IMAGES = Surface("/v1/images/generations", "text2image", _maybe_streamed)
EDITS = Surface("/v1/images/edits", "edit", _maybe_streamed)
SPEECH = Surface("/v1/audio/speech", "text2audio", _spoken, ("ref_audio",), speaks=True)
TRANSCRIPTIONS = Surface("/v1/audio/transcriptions", "audio2text", _written)

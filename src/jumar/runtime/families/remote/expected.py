"""What the answer to a route has to be, told from its first bytes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

HEAD = 4
"""Bytes that are waited for before an answer is judged: as long as the shortest of `_MAGIC`."""

_MAGIC = {
    "wav": (b"RIFF",),
    "flac": (b"fLaC",),
    "opus": (b"OggS",),
    "mp3": (b"ID3", *(bytes([0xFF, second]) for second in range(0xE0, 0x100))),
    "aac": (b"\xff\xf1", b"\xff\xf9"),
}
"""How a file of each format begins; the eleven set bits of an MPEG frame where there is no tag."""


@dataclass(frozen=True)
class Expected:
    """`what` is a noun for messages; `fits` judges the first bytes and the media type."""

    what: str
    fits: Callable[[bytes, str], bool]


def is_text(first: bytes, media_type: str) -> bool:
    """Nothing, JSON or a page, whatever it calls itself. No sound begins with such 32 bytes."""
    if media_type.startswith(("application/json", "text/")):
        return True
    head = first.lstrip()[:32]
    return not first or (head[:1] in (b"{", b"<") and head.isascii() and b"\0" not in head)


def sound(name: str | None) -> Expected:
    """Sound in the format `name`; of raw samples, and of an unknown format, only: no text."""
    magic = _MAGIC.get(name or "", (b"",))

    def fits(first: bytes, media_type: str) -> bool:
        return not is_text(first, media_type) and first.startswith(magic)

    return Expected("audio" if magic == (b"",) else f"{name} audio", fits)


def _is_json(first: bytes, media_type: str) -> bool:
    return first.lstrip()[:1] in (b"{", b"[")


def _is_events(first: bytes, media_type: str) -> bool:
    return media_type.startswith("text/event-stream")


def _is_words(first: bytes, media_type: str) -> bool:
    return bool(first) and not media_type.startswith("text/html")


SOUND = sound(None)
JSON = Expected("JSON", _is_json)
EVENTS = Expected("event stream", _is_events)
WORDS = Expected("text", _is_words)

"""What was said and when; and the files it is written to: text, json, srt, vtt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import BinaryIO

from jumar.runtime.families.base import Draft

_LINE = 84
"""Characters of a caption: two lines of 42, as broadcasters have it."""

_CAPTION_S = 7.0
_PAUSE_S = 0.8
_STOPS = ".?!。？！"
UNSPACED = frozenset({"zh", "ja", "th", "lo", "my", "yue"})


@dataclass(frozen=True)
class Word:
    """One word with its punctuation, seconds from the start of the sound, and how sure it is."""

    start: float
    end: float
    word: str
    probability: float


@dataclass(frozen=True)
class Segment:
    """A stretch of text. `words` is empty where nobody asked for word times."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()


@dataclass(frozen=True)
class Transcript:
    """All that was said in `duration` seconds; `language` as in ISO 639-1."""

    language: str
    duration: float
    segments: tuple[Segment, ...]

    @property
    def text(self) -> str:
        """All segments, with spaces between them where the language has any."""
        space = "" if self.language in UNSPACED else " "
        return space.join(segment.text for segment in self.segments)

    def captions(self) -> Transcript:
        """The same words in segments that can be read while they are spoken.

        A new one begins after a full stop, at a pause, and before one gets too long.
        """
        space = "" if self.language in UNSPACED else " "
        made = [
            Segment(group[0].start, group[-1].end, space.join(w.word for w in group), tuple(group))
            for segment in self.segments
            for group in _grouped(segment.words)
        ]
        return Transcript(self.language, self.duration, tuple(made))


def draft(transcript: Transcript, name: str) -> Draft:
    """The file of a transcript; `name` is one of FORMATS."""
    mime, suffix, render = FORMATS[name]
    content = render(transcript).encode()

    def write(file: BinaryIO) -> None:
        file.write(content)

    return Draft(
        kind="text",
        mime=mime,
        suffix=suffix,
        write=write,
        duration_s=round(transcript.duration, 3),
        text=transcript.text,
    )


def _plain(transcript: Transcript) -> str:
    return f"{transcript.text}\n" if transcript.segments else ""


def _json(transcript: Transcript) -> str:
    content = {
        "text": transcript.text,
        "language": transcript.language,
        "duration": round(transcript.duration, 3),
        "segments": [_segment(segment) for segment in transcript.segments],
    }
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def _segment(segment: Segment) -> dict[str, object]:
    words = [asdict(word) for word in segment.words]
    shown = {"start": segment.start, "end": segment.end, "text": segment.text}
    return {**shown, "words": words} if words else shown


def _srt(transcript: Transcript) -> str:
    blocks = [
        f"{number}\n{_clock(segment.start, ',')} --> {_clock(segment.end, ',')}\n{segment.text}\n"
        for number, segment in enumerate(transcript.segments, 1)
    ]
    return "\n".join(blocks)


def _vtt(transcript: Transcript) -> str:
    blocks = [
        f"{_clock(segment.start, '.')} --> {_clock(segment.end, '.')}\n{_escaped(segment.text)}\n"
        for segment in transcript.segments
    ]
    return "\n".join(["WEBVTT\n", *blocks])


def _escaped(text: str) -> str:
    """WebVTT's cue text is a mark-up language (W3C WebVTT, 4.2.2)."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _clock(seconds: float, point: str) -> str:
    whole, thousandths = divmod(round(seconds * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{point}{thousandths:03}"


def _grouped(words: tuple[Word, ...]) -> Iterator[list[Word]]:
    group: list[Word] = []
    for word in words:
        if group and _is_over(group, word):
            yield group
            group = []
        group.append(word)
    if group:
        yield group


def _is_over(group: list[Word], word: Word) -> bool:
    length = sum(len(held.word) + 1 for held in group) + len(word.word)
    return (
        group[-1].word[-1:] in _STOPS
        or word.start - group[-1].end > _PAUSE_S
        or word.end - group[0].start > _CAPTION_S
        or length > _LINE
    )


FORMATS: dict[str, tuple[str, str, Callable[[Transcript], str]]] = {
    "text": ("text/plain", ".txt", _plain),
    "json": ("application/json", ".json", _json),
    "srt": ("application/x-subrip", ".srt", _srt),
    "vtt": ("text/vtt", ".vtt", _vtt),
}

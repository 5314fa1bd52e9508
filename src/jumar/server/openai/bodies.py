"""The bodies of OpenAI's routes. A `Literal` of one value: nothing else can be honoured.

Beside these fields every key of the model may stand; `asked` refuses what is neither.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class JsonBody(BaseModel):
    """Numbers come as numbers."""

    model_config = ConfigDict(extra="allow", strict=True)


class FormBody(BaseModel):
    """Fields of a form come as text, and are read as what they mean."""

    model_config = ConfigDict(extra="allow")


class ImageFields(BaseModel):
    """What generations and edits have in common. `user` and `safety_identifier` are taken and not
    used.
    """

    model: str
    prompt: str
    n: int = Field(default=1, ge=1, le=64)
    size: str | None = Field(default=None, pattern=r"^(auto|\d{2,4}x\d{2,4})$")
    response_format: Literal["b64_json", "url"] = "b64_json"
    output_format: Literal["png", "jpeg", "webp"] | None = None
    quality: Literal["auto", "standard"] | None = None
    background: Literal["auto", "opaque"] | None = None
    stream: Literal[False] | None = None
    partial_images: Literal[0] | None = None
    safety_identifier: str | None = None
    user: str | None = None


class ImageBody(ImageFields, JsonBody):
    """POST /v1/images/generations."""


class EditBody(ImageFields, FormBody):
    """POST /v1/images/edits, beside the files `image` and `mask`."""

    stream: Literal["false"] | None = None  # type: ignore[assignment]
    partial_images: Literal["0"] | None = None  # type: ignore[assignment]


class EditForm(EditBody):
    """With its files; `image` may stand several times."""

    image: list[bytes]
    mask: bytes | None = None


class VideoBody(JsonBody):
    """POST /v1/videos/generations; frames, seconds and pictures by the model's own keys."""

    model: str
    prompt: str | None = None
    n: Literal[1] = 1
    size: str | None = Field(default=None, pattern=r"^(auto|\d{2,4}x\d{2,4})$")
    response_format: Literal["b64_json", "url"] = "url"
    user: str | None = None


class FilmBody(FormBody):
    """POST /v1/videos, beside the file `input_reference`. `user` is taken and not used."""

    model: str
    prompt: str | None = None
    seconds: float | None = Field(default=None, gt=0, le=3600)
    size: str | None = Field(default=None, pattern=r"^(auto|\d{2,4}x\d{2,4})$")
    user: str | None = None


class FilmForm(FilmBody):
    """With its file."""

    input_reference: bytes | None = None


class SpeechBody(JsonBody):
    """POST /v1/audio/speech."""

    model: str
    input: str
    voice: str | None = None
    instructions: str | None = None
    response_format: Literal["wav", "flac", "mp3", "opus", "pcm"] | None = None
    speed: float | None = None
    stream_format: Literal["audio", "sse"] | None = None


class TranscriptionBody(FormBody):
    """POST /v1/audio/transcriptions, beside the file `file`."""

    model: str
    language: str | None = None
    prompt: str | None = None
    response_format: Literal["json", "text", "srt", "vtt", "verbose_json"] = "json"
    temperature: float | None = Field(default=None, ge=0, le=1)
    timestamp_granularities: list[Literal["word", "segment"]] = Field(default_factory=list)
    stream: Literal["false"] | None = None


class TranscriptionForm(TranscriptionBody):
    """With its file."""

    file: bytes


class ForwardedBody(BaseModel):
    """A body for another server's model, which knows what else has to stand in it."""

    model_config = ConfigDict(extra="allow")

    model: str
    stream: bool | None = None

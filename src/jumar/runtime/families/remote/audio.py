"""Sound that a service made: listened to before it is passed on."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import BinaryIO

from jumar.contracts.errors import UpstreamFailed
from jumar.runtime.families.base import Draft

RAW_RATE = 24_000
"""Samples per second of raw PCM whose rate nobody tells: that of Qwen3-TTS and most others."""

_RATE = re.compile(r"\brate=(\d{4,6})\b")


@dataclass(frozen=True)
class Format:
    """`container` is FFmpeg's name for what has to be in the answer."""

    container: str
    mime: str


FORMATS = {
    "wav": Format("wav", "audio/wav"),
    "flac": Format("flac", "audio/flac"),
    "mp3": Format("mp3", "audio/mpeg"),
    "opus": Format("ogg", "audio/ogg; codecs=opus"),
}
_DEMUXERS = "aac,flac,matroska,mov,mp3,ogg,wav"


def checked(data: bytes, name: str, *, url: str) -> Draft:
    """The file as it is, after all of it has been decoded.

    Raises:
        UpstreamFailed: it is no sound, one of another format, or one without a sample.
    """
    import av

    format_ = FORMATS[name]
    try:
        with av.open(io.BytesIO(data), options={"format_whitelist": _DEMUXERS}) as box:
            container, stream = box.format.name, next(iter(box.streams.audio), None)
            rate = stream.codec_context.sample_rate if stream else 0
            samples = sum(frame.samples for frame in box.decode(stream)) if stream else 0
    except (av.FFmpegError, ValueError) as error:
        raise UpstreamFailed(
            f"{url} answered 200 with something that is no audio: {data[:60]!r}"
        ) from error
    if container != format_.container:
        raise UpstreamFailed(f"{url} was asked for {name} and answered {container}.")
    return _draft(data, format_.mime, name, samples, rate, url)


def raw(data: bytes, media_type: str, rate: int | None, *, url: str) -> Draft:
    """16-bit mono PCM, which is any bytes in pairs: only its length can be checked.

    `rate` is the one asked for; the answer's own media type wins.
    """
    told = _RATE.search(media_type)
    rate = int(told[1]) if told else rate or RAW_RATE
    if len(data) % 2:
        raise UpstreamFailed(f"{url} answered half a sample: {len(data)} bytes of 16-bit PCM.")
    return _draft(data, f"audio/L16; rate={rate}; channels=1", "pcm", len(data) // 2, rate, url)


def _draft(data: bytes, mime: str, name: str, samples: int, rate: int, url: str) -> Draft:
    if not samples or not rate:
        raise UpstreamFailed(f"{url} answered a {name} file without sound in it.")

    def write(file: BinaryIO) -> None:
        file.write(data)

    return Draft(
        kind="audio",
        mime=mime,
        suffix=f".{name}",
        write=write,
        duration_s=round(samples / rate, 6),
        sample_rate=rate,
    )

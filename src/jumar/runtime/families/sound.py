"""Sound files in and out, through the FFmpeg libraries that PyAV brings.

sound = decode("talk.m4a", rate=16_000, param="inputs.audio")  # mono float32, notes on what changed
draft = encode(samples, 24_000, "flac")                  # equal samples give equal bytes
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from jumar.contracts.errors import InvalidInput, InvalidValue
from jumar.runtime.families.base import Draft

if TYPE_CHECKING:
    import numpy as np

MAX_SECONDS = 3 * 3600.0
"""Longest sound that is read: three hours at 16 kHz are 0.7 GB of float32."""

# Container formats that hold sound as such. Playlists and other formats that make FFmpeg open
# further files or addresses are not among them.
_DEMUXERS = "aac,ac3,aiff,amr,au,caf,flac,matroska,mov,mp3,mpegts,ogg,w64,wav"
_SLACK_S = 0.5
_KNOWN = "WAV, FLAC, MP3, OGG, M4A and MP4 files can be read."


@dataclass(frozen=True)
class Sound:
    """`samples`: float32 [n], mono, nominally within -1 … 1, `rate` of them per second.

    `notes` say in words what was changed on the way from the file.
    """

    samples: np.ndarray
    rate: int
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return len(self.samples) / self.rate


@dataclass(frozen=True)
class Format:
    """How one file format is written: FFmpeg's names, and the rates it can have (empty: any)."""

    mime: str
    muxer: str
    codec: str
    samples: str
    rates: tuple[int, ...] = ()

    @property
    def suffix(self) -> str:
        """The file name's end."""
        return f".{self.muxer}"


_MP3_RATES = (8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000)
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)

FORMATS = {
    "wav": Format("audio/wav", "wav", "pcm_s16le", "s16"),
    "flac": Format("audio/flac", "flac", "flac", "s16"),
    "mp3": Format("audio/mpeg", "mp3", "libmp3lame", "s16p", _MP3_RATES),
    "ogg": Format("audio/ogg", "ogg", "libopus", "s16", _OPUS_RATES),
    "opus": Format("audio/ogg; codecs=opus", "opus", "libopus", "s16", _OPUS_RATES),
}


def decode(
    path: str | os.PathLike[str], rate: int, *, param: str, max_seconds: float = MAX_SECONDS
) -> Sound:
    """Read a sound file (or the first sound track of a film) as mono at `rate`.

    Channels are averaged; the resampler is libswresample's (windowed sinc, aliases below -60 dB).

    Raises:
        InvalidInput: missing, no file, not readable, no sound in it, no samples, longer than
            `max_seconds`, or samples that are NaN or infinite.
    """
    import av
    import numpy as np

    path = _existing_file(path, param)
    try:
        with path.open("rb") as file, av.open(file, options={"format_whitelist": _DEMUXERS}) as box:
            if not box.streams.audio:
                raise InvalidInput(f"{path} has no sound track.", hint=_KNOWN, param=param)
            stream = box.streams.audio[0]
            channels, own_rate = stream.codec_context.channels, stream.codec_context.sample_rate
            promised = float((stream.duration or 0) * (stream.time_base or 0))
            blocks: list[np.ndarray] = []
            limit = int(max_seconds * rate)
            for block in _resampled(_mono(box.decode(stream)), own_rate, rate):
                blocks.append(block)
                limit -= len(block)
                if limit < 0:
                    raise InvalidInput(
                        f"{path} is longer than {_length(max_seconds)}.",
                        hint="Cut it into parts.",
                        param=param,
                    )
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read.", param=param) from error
    except (av.FFmpegError, ValueError) as error:
        raise InvalidInput(
            f"{path} is no sound file, or a damaged one.", hint=_KNOWN, param=param
        ) from error
    samples: np.ndarray = np.concatenate(blocks) if blocks else np.zeros(0, np.float32)
    if not len(samples):
        raise InvalidInput(f"{path} holds no sound: it has 0 samples.", param=param)
    if not np.isfinite(samples).all():
        raise InvalidInput(f"{path} has samples that are NaN or infinite.", param=param)
    notes = [*_changes(channels, own_rate, rate)]
    if promised - len(samples) / rate > _SLACK_S:
        notes.append(f"The sound ends early: the file promises {promised:.1f} seconds.")
    return Sound(samples, rate, tuple(notes))


def resample(samples: np.ndarray, own_rate: int, rate: int) -> np.ndarray:
    """float32 [n] at `own_rate` → float32 [about n * rate / own_rate] (libswresample)."""
    import numpy as np

    whole: np.ndarray = np.concatenate(list(_resampled(iter([samples]), own_rate, rate)))
    return whole


def encode(samples: np.ndarray, rate: int, name: str) -> Draft:
    """The file to be written of float32 [n] samples; beyond -1 … 1 they are clipped.

    `name` is one of FORMATS. WAV and FLAC hold 16 bit.

    Raises:
        InvalidValue: the format cannot have this rate.
    """
    check_rate(rate, name)
    format_ = FORMATS[name]
    return Draft(
        kind="audio",
        mime=format_.mime,
        suffix=format_.suffix,
        write=_writer(samples, rate, format_),
        duration_s=round(len(samples) / rate, 6),
        sample_rate=rate,
    )


def pcm16(samples: np.ndarray) -> np.ndarray:
    """float32 [n] → int16 [n], clipped beyond -1 … 1: the samples that files hold."""
    import numpy as np

    rounded: np.ndarray = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
    return rounded


def check_rate(rate: int, name: str) -> None:
    """Raise InvalidValue where the format called `name` cannot have `rate` samples per second."""
    rates = FORMATS[name].rates
    if rates and rate not in rates:
        raise InvalidValue(
            f"{name} cannot have {rate} samples per second.",
            hint=f"{name} can have {', '.join(map(str, rates))}; wav and flac any rate.",
            param="config.sample_rate",
        )


def _writer(samples: np.ndarray, rate: int, format_: Format) -> Callable[[BinaryIO], None]:
    def write(file: BinaryIO) -> None:
        import av

        pcm = pcm16(samples)[None]
        frame = av.AudioFrame.from_ndarray(pcm, format=format_.samples, layout="mono")
        frame.rate = rate
        # bitexact: no time, no version and no random stream number in the file
        options = {"fflags": "bitexact"}
        # In memory: where a file cannot take more, PyAV loses its error and prints a traceback.
        encoded = io.BytesIO()
        with av.open(encoded, "w", format=format_.muxer, options=options) as box:
            stream = box.add_stream(format_.codec, rate=rate, layout="mono")
            stream.codec_context.format = format_.samples
            for piece in (frame, None):
                box.mux(stream.encode(piece))
        file.write(encoded.getbuffer())

    return write


def _existing_file(path: str | os.PathLike[str], param: str) -> Path:
    path = Path(path).expanduser()
    if path.is_dir():
        raise InvalidInput(f"{path} is a folder, not a sound file.", param=param)
    if not path.exists():
        raise InvalidInput(f"There is no file {path}.", param=param)
    if not path.is_file():
        raise InvalidInput(f"{path} is no ordinary file.", param=param)
    if not path.stat().st_size:
        raise InvalidInput(f"{path} is empty: it has 0 bytes.", param=param)
    return path


def _mono(frames: Iterator[Any]) -> Iterator[np.ndarray]:
    """float32 [n] per frame: the mean of the channels, whatever the file's sample format."""
    import av

    as_float = av.AudioResampler(format="fltp")
    for frame in frames:
        for part in as_float.resample(frame):
            yield part.to_ndarray().mean(axis=0)


def _resampled(blocks: Iterator[np.ndarray], own_rate: int, rate: int) -> Iterator[np.ndarray]:
    import av

    if own_rate == rate:
        yield from blocks
        return
    resampler = av.AudioResampler(format="fltp", layout="mono", rate=rate)
    done = 0
    for block in blocks:
        frame = av.AudioFrame.from_ndarray(block[None], format="fltp", layout="mono")
        frame.rate, frame.time_base, frame.pts = own_rate, Fraction(1, own_rate), done
        done += len(block)
        for part in resampler.resample(frame):
            yield part.to_ndarray()[0]
    for part in resampler.resample(None) if done else ():
        yield part.to_ndarray()[0]


def _changes(channels: int, own_rate: int, rate: int) -> Iterator[str]:
    if channels > 1:
        yield f"The {channels} channels of the sound were averaged to one."
    if own_rate != rate:
        yield f"The sound was resampled from {own_rate} to {rate} Hz (libswresample)."


def _length(seconds: float) -> str:
    return f"{seconds / 3600:g} hours" if seconds >= 3600 else f"{seconds:g} seconds"

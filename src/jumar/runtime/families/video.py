"""Frames to an MP4 file, through PyAV: equal frames give equal bytes."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING, Any, BinaryIO

from jumar.runtime.families.base import Draft

if TYPE_CHECKING:
    import numpy as np

CODECS: tuple[tuple[str, dict[str, str]], ...] = (
    ("libx264", {"crf": "18", "preset": "medium"}),
    ("mpeg4", {"qscale": "2"}),
)
"""The first that this PyAV has is used. CRF 18 is x264's "visually lossless"."""

THREADS = 4
"""Fixed: x264 cuts a picture by the number of threads, so the bytes would follow the machine."""


def codec() -> tuple[str, dict[str, str]]:
    """Name and options of the encoder that `draft` uses here."""
    import av

    return next(row for row in CODECS if row[0] in av.codecs_available)


def draft(frames: np.ndarray[Any, Any], fps: float) -> Draft:
    """A video as a file to be. `frames`: uint8 [frames, height, width, 3] of `even` sizes."""
    count, height, width, _ = frames.shape

    def write(file: BinaryIO) -> None:
        _encode(frames, Fraction(fps).limit_denominator(1001), file)

    return Draft(
        kind="video",
        mime="video/mp4",
        suffix=".mp4",
        write=write,
        width=width,
        height=height,
        num_frames=count,
        duration_s=round(count / fps, 6),
        fps=float(fps),
    )


def even(frames: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`frames` with the last row or column doubled where the size is odd: yuv420p needs pairs."""
    import numpy as np

    _, height, width, _ = frames.shape
    missing = ((0, 0), (0, height % 2), (0, width % 2), (0, 0))
    padded: np.ndarray[Any, Any] = np.pad(frames, missing, mode="edge")
    return padded


def _encode(frames: np.ndarray[Any, Any], rate: Fraction, file: BinaryIO) -> None:
    import av

    name, options = codec()
    # bitexact leaves the writing library's version out of the file.
    # In memory: where a file cannot take more, PyAV loses its error and prints a traceback.
    encoded = io.BytesIO()
    with av.open(encoded, mode="w", format="mp4", container_options={"fflags": "+bitexact"}) as box:
        stream = box.add_stream(name, rate=rate, options=options)
        _, stream.height, stream.width, _ = frames.shape
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = THREADS
        for picture in frames:
            box.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        box.mux(stream.encode())
    file.write(encoded.getbuffer())

"""A video that somebody else wrote: looked through before it is passed on."""

from __future__ import annotations

import io
from typing import BinaryIO

from jumar.contracts.errors import InvalidModelOutput
from jumar.runtime.families.base import Draft


def read(data: bytes, writer: str) -> Draft:
    """The file `data` as it is, after every frame of it has been decoded.

    Raises:
        InvalidModelOutput: it is no MP4, is broken, or has no frame or no duration.
    """
    import av

    try:
        with av.open(io.BytesIO(data), options={"format_whitelist": "mov"}) as box:
            if not box.streams.video:
                raise InvalidModelOutput(f"{writer} wrote a file without a video in it.")
            stream = box.streams.video[0]
            stream.thread_type = "AUTO"
            frames = sum(1 for _ in box.decode(stream))
            duration = float((stream.duration or 0) * (stream.time_base or 0))
            width, height, fps = stream.width, stream.height, float(stream.average_rate or 0)
    except (av.FFmpegError, ValueError) as error:
        raise InvalidModelOutput(f"{writer} wrote no video that can be read: {error}.") from error
    if not frames or duration <= 0:
        raise InvalidModelOutput(
            f"{writer} wrote a video of {frames} frames and {duration:g} seconds."
        )

    def write(file: BinaryIO) -> None:
        file.write(data)

    return Draft(
        kind="video",
        mime="video/mp4",
        suffix=".mp4",
        write=write,
        width=width,
        height=height,
        num_frames=frames,
        duration_s=round(duration, 6),
        fps=fps,
    )

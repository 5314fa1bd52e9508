"""Frames become an MP4 that players read, the same bytes every time."""

from __future__ import annotations

import errno
import io
from typing import Any

import pytest

pytest.importorskip("av", reason="needs the runtime extra")

import av
import numpy as np

from jumar.runtime.families import video

RAMP = np.linspace(0, 255, 64).astype(np.uint8)


def frames(count: int, height: int = 32, width: int = 64) -> np.ndarray[Any, Any]:
    """A grey ramp that moves to the right."""
    moving = [np.roll(RAMP[:width], n)[None, :, None] for n in range(count)]
    return np.stack([np.broadcast_to(row, (height, width, 3)) for row in moving])


def written(made: Any) -> io.BytesIO:
    file = io.BytesIO()
    made.write(file)
    file.seek(0)
    return file


def test_what_is_written_can_be_read_back() -> None:
    made = video.draft(frames(9), 8)
    with av.open(written(made)) as box:
        stream = box.streams.video[0]
        decoded = [frame.to_ndarray(format="rgb24") for frame in box.decode(stream)]
    assert (made.width, made.height, made.num_frames, made.fps) == (64, 32, 9, 8.0)
    assert (stream.width, stream.height, stream.average_rate) == (64, 32, 8)
    assert len(decoded) == 9
    assert abs(np.stack(decoded).astype(int) - frames(9)).mean() < 4


def test_players_get_the_pixel_format_that_all_of_them_know() -> None:
    with av.open(written(video.draft(frames(3), 8))) as box:
        assert box.streams.video[0].codec_context.pix_fmt == "yuv420p"
        assert box.streams.video[0].codec_context.name == "h264"


def test_equal_frames_give_equal_bytes() -> None:
    first, second = (written(video.draft(frames(12), 16)).read() for _ in range(2))
    assert first == second
    assert first != written(video.draft(frames(12)[::-1], 16)).read()


@pytest.mark.parametrize(
    ("count", "fps", "seconds"), [(9, 8, 1.125), (1, 24, 1 / 24), (25, 12.5, 2)]
)
def test_the_duration_is_frames_by_rate(count: int, fps: float, seconds: float) -> None:
    made = video.draft(frames(count), fps)
    assert made.duration_s == pytest.approx(seconds, abs=1e-6)
    with av.open(written(made)) as box:
        assert float(box.duration / av.time_base) == pytest.approx(seconds, abs=1e-3)


@pytest.mark.parametrize(("height", "width"), [(31, 64), (32, 63), (31, 63), (32, 64)])
def test_odd_sizes_are_made_even_by_doubling_the_edge(height: int, width: int) -> None:
    odd = frames(2, height, width)
    even = video.even(odd)
    assert even.shape == (2, 32, 64, 3)
    assert np.array_equal(even[:, :height, :width], odd)
    assert np.array_equal(even[:, -1, :width], odd[:, -1])
    assert np.array_equal(even[:, :height, -1], odd[:, :, -1])
    written(video.draft(even, 8))


def test_without_x264_another_codec_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(av, "codecs_available", av.codecs_available - {"libx264"})
    with av.open(written(video.draft(frames(4), 8))) as box:
        assert box.streams.video[0].codec_context.name == "mpeg4"
        assert sum(1 for _ in box.decode(video=0)) == 4


class FullDisk(io.BytesIO):
    """A file that can take nothing."""

    def write(self, content: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_the_systems_error_and_nothing_is_printed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(OSError, match="No space left"):
        video.draft(frames(3), 8).write(FullDisk())
    assert capfd.readouterr() == ("", "")

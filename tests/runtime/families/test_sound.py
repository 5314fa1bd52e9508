"""Sound files: what is read, what is refused and how, and that equal samples give equal files."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any

import pytest

from jumar.contracts.errors import InvalidInput, InvalidValue
from jumar.runtime.families.sound import FORMATS, Sound, check_rate, decode, encode, resample

np = pytest.importorskip("numpy")
av = pytest.importorskip("av")

RATE = 24_000
SECOND = np.arange(RATE) / RATE
TONE = (0.4 * np.sin(2 * np.pi * 440 * SECOND)).astype(np.float32)


def saved(samples: np.ndarray, name: str, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    encode(samples, rate, name).write(file)
    return file.getvalue()


def wav(path: Path, samples: np.ndarray, rate: int = RATE, codec: str = "pcm_f32le") -> Path:
    """[n] or [channels, n] samples as a WAV file of any sample format."""
    rows = np.atleast_2d(samples).astype(np.float32)
    layout = {1: "mono", 2: "stereo", 6: "5.1"}[len(rows)]
    frame = av.AudioFrame.from_ndarray(rows, format="fltp", layout=layout)
    frame.rate = rate
    with av.open(str(path), "w", format="wav") as box:
        stream = box.add_stream(codec, rate=rate, layout=layout)
        for piece in (frame, None):
            box.mux(stream.encode(piece))
    return path


def read(path: Path, rate: int = RATE, **options: float) -> Sound:
    return decode(path, rate, param="inputs.audio", **options)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_written_is_heard_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"tone{FORMATS[name].suffix}"
    path.write_bytes(saved(TONE, name))
    heard = read(path).samples
    assert len(heard) == len(TONE)
    loudest = np.abs(np.fft.rfft(heard[4800:19200])).argmax() * RATE / 14400
    assert loudest == pytest.approx(440, abs=2)
    assert np.sqrt((heard**2).mean()) == pytest.approx(0.4 / np.sqrt(2), rel=0.08)


@pytest.mark.parametrize("name", FORMATS)
def test_equal_samples_give_equal_files(name: str) -> None:
    assert saved(TONE, name) == saved(TONE, name)


def test_a_wav_holds_each_sample_rounded_to_16_bits(tmp_path: Path) -> None:
    path = tmp_path / "tone.wav"
    path.write_bytes(saved(TONE, "wav"))
    assert np.abs(read(path).samples * 32768 - TONE * 32767).max() <= 0.5001
    assert len(path.read_bytes()) == 44 + 2 * len(TONE)


def test_samples_beyond_one_are_clipped_and_do_not_wrap_around(tmp_path: Path) -> None:
    path = tmp_path / "loud.wav"
    path.write_bytes(saved(np.array([3.0, -3.0] * 500, np.float32), "wav"))
    assert set(read(path).samples.round(3)) == {1.0, -1.0}


@pytest.mark.parametrize("codec", ["pcm_f32le", "pcm_f64le", "pcm_s16le", "pcm_s24le", "pcm_s32le"])
def test_every_sample_format_is_read_as_the_same_sound(codec: str, tmp_path: Path) -> None:
    sound = read(wav(tmp_path / "tone.wav", TONE, codec=codec))
    assert np.abs(sound.samples - TONE).max() < 2**-15
    assert sound.samples.dtype == np.float32
    assert sound.notes == ()


@pytest.mark.parametrize("channels", [2, 6])
def test_channels_are_averaged_and_that_is_said(channels: int, tmp_path: Path) -> None:
    rows = np.stack([TONE * (at + 1) / channels for at in range(channels)])
    sound = read(wav(tmp_path / "wide.wav", rows))
    assert np.abs(sound.samples - rows.mean(axis=0)).max() < 1e-6
    assert sound.notes == (f"The {channels} channels of the sound were averaged to one.",)


@pytest.mark.parametrize("rate", [8000, 44100, 48000])
def test_another_rate_is_resampled_and_that_is_said(rate: int, tmp_path: Path) -> None:
    tone = (0.4 * np.sin(2 * np.pi * 440 * np.arange(rate * 2) / rate)).astype(np.float32)
    sound = read(wav(tmp_path / "tone.wav", tone, rate), 16_000)
    place = slice(1600, 30_000)
    wanted = 0.4 * np.sin(2 * np.pi * 440 * np.arange(32_000) / 16_000)
    assert len(sound.samples) == 32_000
    assert np.abs(sound.samples - wanted)[place].max() < 1e-3
    assert sound.notes == (f"The sound was resampled from {rate} to 16000 Hz (libswresample).",)


def test_what_a_lower_rate_cannot_have_is_taken_out_rather_than_folded_back() -> None:
    tone = np.sin(2 * np.pi * 10_000 * np.arange(48_000) / 48_000).astype(np.float32)
    assert np.sqrt((resample(tone, 48_000, 16_000)[1600:-1600] ** 2).mean()) < 1e-3


def test_silence_is_sound(tmp_path: Path) -> None:
    assert not read(wav(tmp_path / "quiet.wav", TONE * 0)).samples.any()


def test_the_sound_of_a_film_is_read(tmp_path: Path) -> None:
    path = tmp_path / "film.mp4"
    with av.open(str(path), "w") as box:
        picture = box.add_stream("mpeg4", rate=10)
        picture.width = picture.height = 64
        sound = box.add_stream("aac", rate=RATE, layout="mono")
        for _ in range(10):
            box.mux(picture.encode(av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8))))
        frame = av.AudioFrame.from_ndarray(TONE[None], format="fltp", layout="mono")
        frame.rate = RATE
        for stream, last in ((sound, frame), (sound, None), (picture, None)):
            box.mux(stream.encode(last))
    assert read(path).duration_s == pytest.approx(1.0, abs=0.1)


def a_text(path: Path) -> None:
    path.write_text("This is no sound.\n" * 50)


def a_picture(path: Path) -> None:
    pytest.importorskip("PIL.Image").new("RGB", (64, 64)).save(path, format="PNG")


def a_film_without_sound(path: Path) -> None:
    with av.open(str(path), "w", format="mp4") as box:
        stream = box.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 64
        for frame in (av.VideoFrame.from_ndarray(np.zeros((64, 64, 3), np.uint8)), None):
            box.mux(stream.encode(frame))


BAD = {
    "There is no file": lambda path: None,
    "is a folder, not a sound file": Path.mkdir,
    "is empty: it has 0 bytes": Path.touch,
    "holds no sound: it has 0 samples": lambda path: path.write_bytes(saved(TONE, "wav")[:44]),
    "has samples that are NaN or infinite": lambda path: wav(path, np.append(TONE, np.nan)),
    "is no sound file, or a damaged one": a_text,
    "is no sound file, or a damaged one.": a_picture,
    "is no sound file, or a damaged": lambda path: path.write_bytes(saved(TONE, "flac")[:900]),
    "has no sound track": a_film_without_sound,
}


@pytest.mark.parametrize("said", BAD)
def test_a_file_that_is_no_sound_is_refused_by_name(said: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    BAD[said](path)
    with pytest.raises(InvalidInput) as refused:
        read(path)
    assert said in refused.value.message
    assert str(path) in refused.value.message
    assert refused.value.param == "inputs.audio"


def test_infinite_samples_are_refused_after_resampling_too(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        read(wav(tmp_path / "loud.wav", np.append(TONE, np.inf)), 16_000)


def test_a_device_is_no_sound_file() -> None:
    with pytest.raises(InvalidInput, match="no ordinary file"):
        read(Path("/dev/null"))


def test_a_sound_that_is_too_long_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = wav(tmp_path / "long.wav", np.tile(TONE, 5))
    assert read(path, max_seconds=5).duration_s == 5
    with pytest.raises(InvalidInput, match="longer than 2 seconds"):
        read(path, max_seconds=2)


@pytest.mark.parametrize(
    "text",
    [
        "#EXTM3U\n#EXT-X-TARGETDURATION:5\n#EXTINF:5,\n{path}\n#EXT-X-ENDLIST\n",
        "ffconcat version 1.0\nfile '{path}'\n",
    ],
    ids=["hls", "concat"],
)
def test_a_file_that_names_other_files_opens_none_of_them(text: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.mp3"
    secret.write_bytes(saved(TONE, "mp3"))
    playlist = tmp_path / "talk.m3u8"
    playlist.write_text(text.format(path=secret))
    with pytest.raises(InvalidInput, match="no sound file"):
        read(playlist)


def test_a_file_that_ends_early_is_read_and_that_is_said(tmp_path: Path) -> None:
    path = tmp_path / "cut.mp3"
    path.write_bytes(saved(np.tile(TONE, 4), "mp3")[:6000])
    sound = read(path)
    assert 0.5 < sound.duration_s < 3
    assert sound.notes == ("The sound ends early: the file promises 4.0 seconds.",)


def test_a_rate_that_a_format_cannot_have_is_refused_with_those_it_can() -> None:
    with pytest.raises(InvalidValue) as refused:
        check_rate(44_100, "opus")
    assert "8000, 12000, 16000, 24000, 48000" in str(refused.value.hint)
    assert refused.value.param == "config.sample_rate"
    for name in ("wav", "flac", "mp3"):
        check_rate(44_100, name)


class FullDisk(io.BytesIO):
    """A file that can take nothing."""

    def write(self, content: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_is_the_systems_error_and_nothing_is_printed(
    name: str,
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(OSError, match="No space left"):
        encode(TONE, RATE, name).write(FullDisk())
    assert capfd.readouterr() == ("", "")

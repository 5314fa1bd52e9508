"""The embedded Whisper: what it hears, when, and what it refuses.

The sounds are spoken by the embedded voice, so that each word is known.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from embedded import content

from jumar.contracts.errors import Cancelled, InvalidInput, InvalidModelOutput, InvalidValue
from jumar.runtime.families.sound import decode, encode, resample
from jumar.runtime.families.transcription.activity import RATE, Rules, Silero, pack, speech

if TYPE_CHECKING:
    from embedded import Embedded

pytestmark = pytest.mark.models
np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("hibari")

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "She bought three apples and a loaf of bread at the market.",
    "The meeting was moved to Thursday afternoon because of the storm.",
    "Please close the window before you leave the house.",
    "My grandfather used to tell us stories about the sea.",
]


@pytest.fixture(scope="module")
def says(voice: Embedded, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Any]:
    """Spoken words as float32 [n] at 16 kHz."""
    home = tmp_path_factory.mktemp("spoken")

    def spoken(words: str) -> Any:
        path = home / f"{abs(hash(words))}.wav"
        if not path.exists():
            path.write_bytes(voice.answer({"prompt": words}, seed=1).bytes)
        return decode(path, RATE, param="audio").samples

    return spoken


@pytest.fixture(scope="module")
def fox(says: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("fox") / "fox.wav", says(SENTENCES[0]))


def saved(path: Path, samples: Any, rate: int = RATE) -> Path:
    path.write_bytes(content(encode(samples, rate, "wav")))
    return path


def quiet(seconds: float) -> Any:
    return np.zeros(round(seconds * RATE), np.float32)


def plain(text: str) -> list[str]:
    return re.sub(r"[^a-z' ]", "", text.lower().replace("-", " ")).split()


def edits(one: list[str], other: list[str]) -> int:
    """Levenshtein distance in words."""
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        corner, row[0] = row[0], i
        for j, b in enumerate(other, 1):
            corner, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, corner + (a != b))
    return row[-1]


def test_what_the_voice_says_is_written_down(
    ears: Embedded, says: Callable[[str], Any], tmp_path: Path
) -> None:
    wrong = total = 0
    for sentence in SENTENCES:
        heard = ears.answer({"audio": str(saved(tmp_path / "said.wav", says(sentence)))}).text
        wrong += edits(plain(heard), plain(sentence))
        total += len(plain(sentence))
    assert wrong / total <= 0.05


def test_the_text_is_what_transformers_writes(ears: Embedded, fox: Path) -> None:
    """Greedy decoding of the same checkpoint by the library's own generate."""
    from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration

    folder, samples = ears.weights["model"], decode(fox, RATE, param="audio").samples
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
    extract = WhisperFeatureExtractor.from_pretrained(folder)
    features = extract(samples, sampling_rate=RATE, return_tensors="pt").input_features
    with torch.inference_mode():
        tokens = model.generate(features, do_sample=False, num_beams=1, return_timestamps=False)
    wanted = AutoTokenizer.from_pretrained(folder).decode(tokens[0], skip_special_tokens=True)
    assert ears.answer({"audio": str(fox)}, vad=False).text == wanted.strip()


def test_equal_sounds_give_equal_bytes(ears: Embedded, fox: Path) -> None:
    one, other = (ears.answer({"audio": str(fox)}, response_format="json") for _ in range(2))
    assert one.bytes == other.bytes
    ears.answer({"audio": str(fox)}, word_timestamps=True)
    assert ears.answer({"audio": str(fox)}, response_format="json").bytes == one.bytes


def test_two_spoken_parts_are_found_where_they_are(
    ears: Embedded, says: Callable[[str], Any]
) -> None:
    first, second = trimmed(says(SENTENCES[0])), trimmed(says(SENTENCES[3]))
    clip = np.concatenate([quiet(1), first, quiet(2), second, quiet(1)])
    likely = Silero(ears.weights["vad"])(clip)
    begin = 1 + len(first) / RATE + 2
    wanted = [(1, 1 + len(first) / RATE), (begin, begin + len(second) / RATE)]
    found = speech(likely, Rules(margin=0))
    assert found == [pytest.approx(span, abs=0.15) for span in wanted]


def trimmed(samples: Any) -> Any:
    loud = np.flatnonzero(np.abs(samples) > 0.01)
    return samples[loud[0] : loud[-1]]


def test_the_detector_gives_the_same_in_one_block_and_in_many(
    ears: Embedded, says: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from jumar.runtime.families.transcription import activity

    detect, clip = Silero(ears.weights["vad"]), says(SENTENCES[1])
    whole = detect(clip)
    monkeypatch.setattr(activity, "_BLOCK", 7)
    assert detect(clip) == pytest.approx(whole, abs=1e-6)


@pytest.mark.parametrize("make", ["silence", "hum", "noise"])
def test_where_nobody_speaks_no_words_are_made_up(
    ears: Embedded, make: str, tmp_path: Path
) -> None:
    time = np.arange(8 * RATE) / RATE
    sounds = {
        "silence": time * 0,
        "hum": 0.1 * np.sin(2 * np.pi * 50 * time),
        "noise": 0.01 * np.random.default_rng(0).normal(size=len(time)),
    }
    path = saved(tmp_path / "quiet.wav", sounds[make].astype(np.float32))
    answer = ears.answer({"audio": str(path)})
    assert (answer.text, answer.bytes) == ("", b"")
    assert answer.run.warnings == ["Nobody speaks in these 8.0 seconds of sound."]
    assert ears.answer({"audio": str(path)}, vad=False).text != ""


def test_long_speech_is_heard_to_its_end_in_windows(
    ears: Embedded, says: Callable[[str], Any], tmp_path: Path
) -> None:
    parts, said, length = [], [], 0.0
    while length < 90:
        sentence = SENTENCES[len(said) % len(SENTENCES)]
        parts += [says(sentence), quiet(0.3)]
        said.append(sentence)
        length += len(parts[-2]) / RATE + 0.3
    clip = np.concatenate(parts)
    answer = ears.answer({"audio": str(saved(tmp_path / "long.wav", clip))}, response_format="json")
    read = json.loads(answer.bytes)
    assert edits(plain(read["text"]), plain(" ".join(said))) / len(plain(" ".join(said))) < 0.08
    assert len(read["segments"]) >= 3
    for one, other in pairwise(read["segments"]):
        assert one["end"] <= other["start"]
    assert all(0 < each["end"] - each["start"] <= 30 for each in read["segments"])
    assert length - read["segments"][-1]["end"] < 1


def test_long_speech_is_heard_without_the_detector_too(
    ears: Embedded, says: Callable[[str], Any], tmp_path: Path
) -> None:
    clip = np.concatenate([says(" ".join(SENTENCES)), says(" ".join(SENTENCES))])
    answer = ears.answer({"audio": str(saved(tmp_path / "long.wav", clip))}, vad=False)
    wanted = plain(" ".join(SENTENCES * 2))
    assert edits(plain(answer.text), wanted) / len(wanted) < 0.1


def test_words_have_times_near_where_they_were_said(
    ears: Embedded, says: Callable[[str], Any], tmp_path: Path
) -> None:
    """Four sentences at known places: their first words begin and their last words end there."""
    clip, places = quiet(0.7), []
    for sentence in SENTENCES[:4]:
        part = trimmed(says(sentence))
        places.append((len(clip) / RATE, (len(clip) + len(part)) / RATE))
        clip = np.concatenate([clip, part, quiet(0.9)])
    path = saved(tmp_path / "placed.wav", clip)
    answer = ears.answer({"audio": str(path)}, response_format="json", word_timestamps=True)
    segments = json.loads(answer.bytes)["segments"]
    words = [word for segment in segments for word in segment["words"]]
    assert plain(" ".join(word["word"] for word in words)) == plain(answer.text)
    for one, other in pairwise(words):
        assert 0 <= one["start"] <= one["end"] <= other["start"]
    assert words[-1]["end"] <= len(clip) / RATE
    assert all(0 < word["probability"] <= 1 for word in words)
    found = [(segment["start"], segment["end"]) for segment in segments]
    assert found == [pytest.approx(place, abs=0.25) for place in places]


def test_text_with_word_times_comes_as_text_and_as_json(ears: Embedded, fox: Path) -> None:
    text, words = ears.answer({"audio": str(fox)}, word_timestamps=True).drafts
    assert (text.suffix, words.suffix) == (".txt", ".json")
    assert json.loads(content(words))["segments"][0]["words"][0]["word"] == "The"


@pytest.mark.parametrize(("name", "begins"), [("srt", b"1\n00:00:00,"), ("vtt", b"WEBVTT\n\n00:")])
def test_captions_are_written(ears: Embedded, fox: Path, name: str, begins: bytes) -> None:
    answer = ears.answer({"audio": str(fox)}, response_format=name)
    assert answer.bytes.startswith(begins)
    assert SENTENCES[0].encode() in answer.bytes


def test_stereo_at_44_kilohertz_is_heard_as_mono_at_16(
    ears: Embedded, says: Callable[[str], Any], fox: Path, tmp_path: Path
) -> None:
    av = pytest.importorskip("av")
    mono = resample(says(SENTENCES[0]), RATE, 44_100)
    path = tmp_path / "stereo.wav"
    frame = av.AudioFrame.from_ndarray(np.stack([mono * 1.4, mono * 0.6]), "fltp", "stereo")
    frame.rate = 44_100
    with av.open(str(path), "w") as box:
        stream = box.add_stream("pcm_f32le", rate=44_100, layout="stereo")
        for piece in (frame, None):
            box.mux(stream.encode(piece))
    answer = ears.answer({"audio": str(path)})
    assert answer.text == ears.answer({"audio": str(fox)}).text
    assert [note.split(" ")[1] for note in answer.run.warnings] == ["2", "sound"]


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: None, "is not there"),
        (Path.mkdir, "a folder"),
        (lambda path: path.write_text("no sound"), "is no sound file"),
    ],
)
def test_what_is_no_sound_is_refused_before_the_model_is_asked(
    ears: Embedded, write: Callable[[Path], Any], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "talk.wav"
    write(path)
    with pytest.raises(InvalidInput) as refused:
        ears.prepared({"audio": str(path)}, {})
    assert said in refused.value.message
    assert refused.value.param == "inputs.audio"


def test_a_language_that_the_model_lacks_is_refused_with_those_it_has(
    ears: Embedded, fox: Path
) -> None:
    with pytest.raises(InvalidValue, match="does not understand 'de'") as refused:
        ears.prepared({"audio": str(fox)}, {"language": "de"})
    assert "en" in str(refused.value.hint)
    assert refused.value.param == "config.language"


def test_a_text_that_is_cut_off_says_so(ears: Embedded, fox: Path) -> None:
    answer = ears.answer({"audio": str(fox)}, max_new_tokens=3)
    assert answer.text == "The quick brown"
    assert any("cut off after 3 tokens" in warning for warning in answer.run.warnings)


def test_a_run_stops_within_a_window(ears: Embedded, fox: Path) -> None:
    stop = threading.Event()

    def listener(event: Any) -> None:
        if event.stage == "transcribe":
            stop.set()

    with pytest.raises(Cancelled, match="transcribe"):
        ears.answer({"audio": str(fox)}, listener=listener, cancel=stop)


@pytest.mark.parametrize("part", ["encoder", "decoder"])
def test_nan_in_the_model_is_an_error_and_no_text(ears: Embedded, fox: Path, part: str) -> None:
    norm = getattr(ears.model._writer._model.model, part).layer_norm
    whole = norm.weight.clone()
    with torch.no_grad():
        norm.weight.fill_(float("nan"))
    try:
        with pytest.raises(InvalidModelOutput, match=f"{part} answered with NaN"):
            ears.answer({"audio": str(fox)})
    finally:
        with torch.no_grad():
            norm.weight.copy_(whole)


def test_windows_of_real_speech_begin_and_end_in_pauses(
    ears: Embedded, says: Callable[[str], Any]
) -> None:
    clip = np.concatenate([says(" ".join(SENTENCES))] * 3)
    likely = Silero(ears.weights["vad"])(clip)
    for begin, end in pack(speech(likely), likely, 30.0):
        for moment in (begin, min(end, len(clip) / RATE) - 0.04):
            assert likely[int(moment * RATE / 512)] < 0.5

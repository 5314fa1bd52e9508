"""The embedded voice: what it says, with which bytes, and what it refuses."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jumar.contracts.errors import (
    Cancelled,
    InvalidInput,
    InvalidModelOutput,
    InvalidValue,
    WeightsUnavailable,
)
from jumar.runtime.families.sound import decode

if TYPE_CHECKING:
    from embedded import Embedded

pytestmark = pytest.mark.models
np = pytest.importorskip("numpy")
pytest.importorskip("hibari")

TWO = "Good morning. The train leaves at half past seven."


def heard(content: bytes, tmp_path: Path, rate: int = 24_000) -> Any:
    path = tmp_path / "spoken"
    path.write_bytes(content)
    return decode(path, rate, param="audio").samples


def test_the_voice_says_exactly_what_the_library_says(voice: Embedded, tmp_path: Path) -> None:
    from hibari import Hibari

    reference = Hibari(model=str(voice.weights["model"] / "hibari.onnx"))(TWO, 1.2, 5)
    answer = voice.answer({"prompt": TWO}, seed=5, speed=1.2)
    samples = heard(answer.bytes, tmp_path)
    assert len(samples) == len(reference)
    assert np.abs(samples * 32768 - reference * 32767).max() <= 0.51
    assert answer.drafts[0].duration_s == pytest.approx(len(reference) / 24_000)


@pytest.mark.parametrize("name", ["wav", "flac", "mp3", "ogg", "opus"])
def test_equal_seeds_give_equal_files_and_others_do_not(voice: Embedded, name: str) -> None:
    one, again, other = (
        voice.answer({"prompt": TWO}, seed=seed, response_format=name) for seed in (1, 1, 2)
    )
    assert one.bytes == again.bytes != other.bytes
    assert one.drafts[0].suffix == f".{name}"


def test_a_seed_that_nobody_gave_is_recorded_and_gives_the_same_again(voice: Embedded) -> None:
    drawn = voice.answer({"prompt": TWO})
    seed = drawn.run.config["seed"]
    assert isinstance(seed, int)
    assert voice.answer({"prompt": TWO}, seed=seed).bytes == drawn.bytes


def test_faster_speech_is_shorter(voice: Embedded) -> None:
    slow, fast = (voice.answer({"prompt": TWO}, speed=speed).drafts[0] for speed in (0.8, 1.6))
    assert fast.duration_s < 0.7 * slow.duration_s


def test_another_sample_rate_is_the_same_sound(voice: Embedded, tmp_path: Path) -> None:
    own = heard(voice.answer({"prompt": TWO}, seed=1).bytes, tmp_path, 16_000)
    other = voice.answer({"prompt": TWO}, seed=1, sample_rate=16_000)
    assert other.drafts[0].sample_rate == 16_000
    assert np.abs(heard(other.bytes, tmp_path, 16_000) - own)[:-100].max() < 1e-3
    assert other.run.warnings == []


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("你好", "no sound for: 你 好"),
        ("Hello Привет", "no sound for: П р и в е т"),
        ("😀😀", "nothing to say"),
        (" \n\t ", "is empty"),
        ("... !!!", "nothing to say"),
    ],
)
def test_what_the_voice_cannot_say_is_refused_before_it_speaks(
    voice: Embedded, prompt: str, said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        voice.prepared({"prompt": prompt}, {})
    assert said in refused.value.message
    assert refused.value.param == "inputs.prompt"


@pytest.mark.parametrize("length", [0, 20_001, 100_000])
def test_a_prompt_has_to_have_a_sensible_length(voice: Embedded, length: int) -> None:
    with pytest.raises((InvalidInput, InvalidValue)) as refused:
        voice.prepared({"prompt": "a" * length}, {})
    assert refused.value.param == "inputs.prompt"


def test_a_word_without_a_sound_is_refused_by_name(voice: Embedded) -> None:
    with pytest.raises(InvalidInput, match="no sound for 'xŁ'") as refused:
        voice.answer({"prompt": "This is xŁ"})
    assert refused.value.param == "inputs.prompt"


def test_the_digits_in_a_word_are_heard(voice: Embedded) -> None:
    with_them, without = (
        voice.answer({"prompt": prompt}, seed=1).drafts[0]
        for prompt in ("/EVOEP88E/Wewr", "/EVOEPE/Wewr")
    )
    assert with_them.duration_s > without.duration_s + 0.3


def test_symbols_without_a_sound_are_left_out_and_named(voice: Embedded) -> None:
    with_them = voice.answer({"prompt": "Hello 😀 there ★ it costs $5."}, seed=1)
    without = voice.answer({"prompt": "Hello there it costs $5."}, seed=1)
    assert with_them.run.warnings == ["Symbols that have no sound were left out: 😀 ★"]
    assert without.run.warnings == []


def test_a_word_that_the_reader_would_cut_off_is_read_in_parts(voice: Embedded) -> None:
    word = "donaudampfschifffahrtsgesellschaft"
    answer = voice.answer({"prompt": f"The {word} again."}, seed=1)
    assert answer.run.warnings == [f"Words of over 24 letters were read in parts: {word!r}."]
    assert voice.answer({"prompt": "Supercalifragilisticexpialidocious."}).run.warnings == []


def test_a_sentence_without_commas_is_cut_before_it_is_too_long(voice: Embedded) -> None:
    steps = [
        event.data["seconds"]
        for event in voice.answer({"prompt": "word and thing " * 100}).run.events
        if event.event == "step" and event.stage == "speak"
    ]
    assert len(steps) >= 4
    assert max(steps) < 30


@pytest.mark.parametrize("prompt", ["1" * 5000, "1," * 200, "a-" * 300, "don't'" * 80, "x" * 3000])
def test_no_text_makes_the_reader_fail(voice: Embedded, prompt: str) -> None:
    with pytest.raises(Cancelled):  # reading is what is tried here; speaking it takes minutes
        stop = threading.Event()
        voice.answer({"prompt": prompt}, listener=_stops_at("speak", stop), cancel=stop)


def test_a_run_stops_between_two_sentences(voice: Embedded) -> None:
    stop, spoken = threading.Event(), []

    def listener(event: Any) -> None:
        if event.stage == "speak" and event.event == "step":
            spoken.append(event)
            stop.set()

    with pytest.raises(Cancelled, match="speak"):
        voice.answer({"prompt": "One. Two. Three. Four."}, listener=listener, cancel=stop)
    assert len(spoken) == 1


@pytest.mark.parametrize(("value", "said"), [(np.nan, "NaN"), (0.0, "silence")])
def test_a_voice_that_breaks_down_is_not_taken_for_speech(
    voice: Embedded, monkeypatch: pytest.MonkeyPatch, value: float, said: str
) -> None:
    broken = lambda ids, speed, noise: np.full(24_000, value, np.float32)  # noqa: E731
    monkeypatch.setattr(voice.model._hibari, "from_ids", broken)
    with pytest.raises(InvalidModelOutput, match=said):
        voice.answer({"prompt": "Hello."})


def test_an_mp3_at_a_rate_that_mp3_lacks_is_refused_before_it_speaks(voice: Embedded) -> None:
    with pytest.raises(InvalidValue, match="mp3 cannot have 23000"):
        voice.prepared({"prompt": "Hi."}, {"response_format": "mp3", "sample_rate": 23_000})


def test_other_devices_are_refused_with_the_reason(voice: Embedded) -> None:
    from jumar.devices.base import Device, Placement

    for kind, backend in (("npu", "ascend"), ("cuda", "cuda")):
        device = Placement(Device(kind, 0, "card"), kind, backend, kind, "asked for")
        assert "CPUExecutionProvider only" in str(voice.family.refuses(device))


def test_a_graph_that_is_no_voice_is_refused(voice: Embedded, tmp_path: Path) -> None:
    from embedded import Embedded

    (tmp_path / "hibari.onnx").write_bytes(b"no graph")
    with pytest.raises(WeightsUnavailable, match="no ONNX graph"):
        Embedded("hibari", {"model": tmp_path})
    speller = voice.weights["model"] / "oov.onnx"
    if speller.exists():
        with pytest.raises(WeightsUnavailable, match="no hibari voice"):
            Embedded("hibari", {"model": speller})
    with pytest.raises(WeightsUnavailable, match="0 ONNX files"):
        Embedded("hibari", {"model": tmp_path.parent / "nothing"})


def test_twenty_thousand_characters_are_read_without_fail(voice: Embedded) -> None:
    stop = threading.Event()
    with pytest.raises(Cancelled, match="speak"):
        prompt = (TWO + " ") * (20_000 // (len(TWO) + 1))
        voice.answer({"prompt": prompt}, listener=_stops_at("speak", stop), cancel=stop)


def _stops_at(stage: str, stop: threading.Event) -> Any:
    def listener(event: Any) -> None:
        if event.stage == stage:
            stop.set()

    return listener


def test_what_is_written_is_a_file_that_other_programs_read(voice: Embedded) -> None:
    soundfile = pytest.importorskip("soundfile")
    content = voice.answer({"prompt": "Hello."}, seed=1).bytes
    info = soundfile.info(io.BytesIO(content))
    assert (info.samplerate, info.channels, info.subtype) == (24_000, 1, "PCM_16")

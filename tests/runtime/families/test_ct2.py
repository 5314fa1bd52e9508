"""Whisper out of CTranslate2's format: every weight arrives, a wrong file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar.contracts.errors import WeightsUnavailable
from jumar.runtime.families.transcription.ct2 import ct2_whisper

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
tiny = pytest.importorskip("tiny_checkpoints")


@pytest.fixture(scope="module")
def state() -> dict[str, Any]:
    return tiny.whisper().state_dict()


def converted(source: Path, tmp_path: Path) -> Path:
    target = tmp_path / "made"
    target.mkdir()
    ct2_whisper(source, target)
    return target


def test_every_weight_arrives_unchanged(state: dict[str, Any], tmp_path: Path) -> None:
    from transformers import WhisperForConditionalGeneration

    made = converted(tiny.ct2(tmp_path / "ct2", state), tmp_path)
    model, found = WhisperForConditionalGeneration.from_pretrained(made, output_loading_info=True)
    assert not found["missing_keys"] and not found["unexpected_keys"]
    loaded = model.state_dict()
    assert loaded.keys() == state.keys()
    for name, tensor in loaded.items():
        assert torch.equal(tensor.half(), state[name].half()), name


def test_what_generation_needs_is_there(state: dict[str, Any], tmp_path: Path) -> None:
    from transformers import AutoTokenizer, GenerationConfig, WhisperFeatureExtractor

    made = converted(tiny.ct2(tmp_path / "ct2", state), tmp_path)
    rules = GenerationConfig.from_pretrained(made)
    tokenizer = AutoTokenizer.from_pretrained(made)
    assert rules.alignment_heads == [[1, 0]]
    assert rules.suppress_tokens == [1, 2]
    assert rules.begin_suppress_tokens == [3]
    assert rules.is_multilingual is False
    assert rules.no_timestamps_token_id == tokenizer.convert_tokens_to_ids("<|notimestamps|>")
    assert tokenizer.convert_tokens_to_ids("<|0.00|>") == rules.no_timestamps_token_id + 1
    assert tokenizer.convert_tokens_to_ids("<|30.00|>") == rules.no_timestamps_token_id + 1501
    assert WhisperFeatureExtractor.from_pretrained(made).feature_size == 80


LINEAR = "encoder/layer_0/ffn/linear_0/weight"
STACKED = "encoder/layer_0/self_attention/linear_0/bias"
WRONG = {
    "version 7": {"version": 7},
    "has no encoder/layer_1/ffn/linear_1": {"encoder/layer_1/ffn/linear_1/weight": None},
    "quantised": {LINEAR: np.zeros((96, 64), np.int8)},
    "unknown variables: encoder/rotary": {"encoder/rotary": np.zeros(3, np.float32)},
    "decoder/activation = 1": {"decoder/activation": np.int8(1)},
    "bias for its keys": {STACKED: np.ones(192, np.float16)},
    r"model.encoder.layers.0.fc1.weight is \(96, 63\), not \(96, 64\)": {
        LINEAR: np.zeros((96, 63), np.float16)
    },
}


@pytest.mark.parametrize("said", WRONG)
def test_a_file_of_another_kind_is_refused(
    said: str, state: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(WeightsUnavailable, match=said):
        converted(tiny.ct2(tmp_path / "ct2", state, **WRONG[said]), tmp_path)


@pytest.mark.parametrize("left", [0, 3, 40, 1000, -1])
def test_a_file_that_is_cut_off_is_refused(
    left: int, state: dict[str, Any], tmp_path: Path
) -> None:
    source = tiny.ct2(tmp_path / "ct2", state)
    content = (source / "model.bin").read_bytes()
    (source / "model.bin").write_bytes(content[:left])
    with pytest.raises(WeightsUnavailable, match="cut off or damaged"):
        converted(source, tmp_path)


def test_a_tokenizer_of_another_model_is_refused(state: dict[str, Any], tmp_path: Path) -> None:
    source = tiny.ct2(tmp_path / "ct2", state)
    tokenizer = tiny.whisper_tokenizer()
    tokenizer.add_tokens(["one", "two"])
    tokenizer.save(str(source / "tokenizer.json"))
    with pytest.raises(WeightsUnavailable, match="tokenizer.json has"):
        converted(source, tmp_path)

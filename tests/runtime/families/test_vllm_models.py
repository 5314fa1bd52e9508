"""Language models that Jumar brings and vLLM serves: all weights arrive, nothing runs them here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jumar import catalog, engine
from jumar.contracts.errors import UnsupportedTask, WeightsUnavailable
from jumar.contracts.requests import GenerateRequest
from jumar.runtime.families.vllm.gguf_llama import gguf_llama

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
tiny = pytest.importorskip("tiny_gguf")


def converted(source: Path, tmp_path: Path) -> Path:
    target = tmp_path / "made"
    target.mkdir()
    gguf_llama(source, target)
    return target


def test_every_weight_is_the_one_that_transformers_reads_from_the_file(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    source = tiny.write(tmp_path / "gguf", tiny.llama_tensors())
    made = AutoModelForCausalLM.from_pretrained(converted(source, tmp_path))
    theirs = AutoModelForCausalLM.from_pretrained(source, gguf_file="tiny.gguf")
    assert made.dtype == torch.bfloat16
    loaded, wanted = made.state_dict(), theirs.state_dict()
    assert loaded.keys() == wanted.keys()
    for name, weight in loaded.items():
        assert torch.equal(weight, wanted[name].bfloat16()), name


def test_words_are_split_as_the_metadata_says(tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    made = converted(tiny.write(tmp_path / "gguf", tiny.llama_tensors()), tmp_path)
    words = AutoTokenizer.from_pretrained(made)
    assert words.tokenize("a cat 12") == ["a", "Ġcat", "Ġ", "1", "2"], "digits stand alone"
    assert words("<|im_end|>").input_ids == [2] == [words.eos_token_id]
    talk = words.apply_chat_template([{"role": "user", "content": "at"}], return_dict=True)
    assert talk["input_ids"] == [1, tiny.WORDS.index("at"), 2]


LOST = "blk.1.ffn_up.weight"


@pytest.mark.parametrize(
    ("said", "change"),
    {
        "layers.1.mlp.up_proj.weight is missing": lambda tensors: tensors.pop(LOST),
        r"is \(96, 32\), not \(96, 64\)": lambda tensors: tensors.update(
            {LOST: tensors[LOST][:, :32]}
        ),
        "unknown tensors: blk.0.attn_q.bias": lambda tensors: tensors.update(
            {"blk.0.attn_q.bias": np.zeros(64, np.float32)}
        ),
    }.items(),
)
def test_a_file_with_other_tensors_is_refused(said: str, change: Any, tmp_path: Path) -> None:
    tensors = tiny.llama_tensors()
    change(tensors)
    with pytest.raises(WeightsUnavailable, match=said):
        converted(tiny.write(tmp_path / "gguf", tensors), tmp_path)


@pytest.mark.parametrize(
    ("said", "facts"),
    [("'gemma', no Llama", {"architecture": "gemma"}), ("only SmolLM's way", {"pre": "llama-bpe"})],
)
def test_a_file_of_another_kind_is_refused(said: str, facts: Any, tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match=said):
        converted(tiny.write(tmp_path / "gguf", tiny.llama_tensors(), **facts), tmp_path)


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    source = tiny.write(tmp_path / "gguf", tiny.llama_tensors())
    (source / "tiny.gguf").write_bytes((source / "tiny.gguf").read_bytes()[:3000])
    with pytest.raises(WeightsUnavailable, match="cut off"):
        converted(source, tmp_path)


def test_nothing_generates_with_it_here_and_the_refusal_names_the_command() -> None:
    request = GenerateRequest(task="text2text", model="smollm2", inputs={"prompt": "Hello."})
    with pytest.raises(UnsupportedTask) as refused:
        engine.validate(request)
    assert refused.value.hint is not None
    assert 'vllm serve "$(jumar models pull --quiet smollm2-135m)"' in refused.value.hint


@pytest.mark.models
def test_the_pulled_smollm2_reads_and_answers_english() -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from jumar.runtime.families import family_of
    from jumar.runtime.weights import ensure

    manifest = catalog.get("smollm2-135m")
    folder = ensure(manifest, converters=family_of(manifest).converters)
    words = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    given = words(
        "The Eiffel Tower is located in Paris, the capital of France.", return_tensors="pt"
    )
    with torch.inference_mode():
        loss = model(**given, labels=given.input_ids).loss
    assert float(loss.exp()) == pytest.approx(11.9, abs=0.2), "as transformers reads the file"
    question = words.apply_chat_template(
        [{"role": "user", "content": "What is the capital of France?"}],
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
    )
    answer = model.generate(**question, max_new_tokens=12, do_sample=False)[0]
    said = words.decode(answer[question["input_ids"].shape[1] :], skip_special_tokens=True)
    assert said == "The capital of France is Paris."

"""Vectors from texts: pooling as the folder says, batches, lengths; and the embedded model."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import (
    InvalidInput,
    InvalidModelOutput,
    InvalidValue,
    WeightsUnavailable,
)
from jumar.runtime.families.encoder.batches import batches
from jumar.runtime.families.encoder.packing import ATTENTION, Packing
from jumar.runtime.families.encoder.recipe import POOLING, Recipe

if TYPE_CHECKING:
    from embedded import Embedded

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
tiny = pytest.importorskip("tiny_checkpoints")

TEXTS = ["a cat sat on the mat", "the dog ran far away and sat", "cat", "the mat"]


def encoder(folder: Path) -> Embedded:
    from embedded import Embedded

    return Embedded("all-minilm-l6-v2", {"model": folder})


def vectors(model: Embedded, texts: Any, **config: Any) -> np.ndarray:
    return np.load(io.BytesIO(model.answer({"texts": texts}, **config).bytes))


@pytest.fixture(scope="module")
def small(few_threads: None, tmp_path_factory: pytest.TempPathFactory) -> Embedded:
    return encoder(tiny.sentence_bert(tmp_path_factory.mktemp("bert")))


def by_hand(folder: Path, text: str, pooling: str) -> np.ndarray:
    """One text without padding or batch, straight from transformers."""
    from transformers import AutoModel, AutoTokenizer

    inputs = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(folder).eval()(**inputs).last_hidden_state[0]
    made = {
        "cls_token": states[0],
        "mean_tokens": states.mean(0),
        "max_tokens": states.max(0).values,
        "mean_sqrt_len_tokens": states.sum(0) / len(states) ** 0.5,
        "lasttoken": states[-1],
    }
    return made[pooling].numpy()


@pytest.mark.parametrize("pooling", POOLING)
def test_each_pooling_is_what_it_says_though_texts_are_padded(pooling: str, tmp_path: Path) -> None:
    folder = tiny.sentence_bert(tmp_path, pooling=(pooling,), normalize=False)
    made = vectors(encoder(folder), TEXTS)
    for text, vector in zip(TEXTS, made, strict=True):
        assert vector == pytest.approx(by_hand(folder, text, pooling), abs=1e-5)


def test_two_poolings_stand_side_by_side(tmp_path: Path) -> None:
    names = ("cls_token", "max_tokens")
    folder = tiny.sentence_bert(tmp_path, pooling=names, normalize=False)
    made = vectors(encoder(folder), "cat")
    assert made.shape == (1, 64)
    wanted = np.concatenate([by_hand(folder, "cat", name) for name in names])
    assert made[0] == pytest.approx(wanted, abs=1e-5)


def test_the_file_is_float32_with_a_row_per_text(small: Embedded) -> None:
    answer = small.answer({"texts": TEXTS})
    made = np.load(io.BytesIO(answer.bytes))
    assert (made.shape, made.dtype) == ((4, 32), np.float32)
    draft = answer.drafts[0]
    assert (draft.kind, draft.mime, draft.suffix) == ("vectors", "application/x-npy", ".npy")
    assert (draft.width, draft.height) == (32, 4)


@pytest.mark.parametrize("size", [1, 2, 64])
def test_a_batch_says_what_each_text_says_alone(small: Embedded, size: int) -> None:
    together = vectors(small, TEXTS * 3, batch_size=size)
    for text, vector in zip(TEXTS * 3, together, strict=True):
        assert vector == pytest.approx(vectors(small, text)[0], abs=1e-5)


def test_equal_texts_give_equal_bytes(small: Embedded) -> None:
    assert small.answer({"texts": TEXTS}).bytes == small.answer({"texts": TEXTS}).bytes


def test_vectors_have_length_one_unless_the_caller_says_no(small: Embedded) -> None:
    assert np.linalg.norm(vectors(small, TEXTS), axis=1) == pytest.approx(1, abs=1e-6)
    assert np.linalg.norm(vectors(small, TEXTS, normalize=False), axis=1).max() > 1.5


def test_fewer_dimensions_are_the_first_ones_scaled_anew(small: Embedded) -> None:
    full, short = vectors(small, TEXTS), vectors(small, TEXTS, dimensions=8)
    scaled = full[:, :8] / np.linalg.norm(full[:, :8], axis=1, keepdims=True)
    assert short == pytest.approx(scaled, abs=1e-6)


def test_more_dimensions_than_there_are_is_refused(small: Embedded) -> None:
    with pytest.raises(InvalidValue, match="32 dimensions, not 33") as refused:
        vectors(small, TEXTS, dimensions=33)
    assert refused.value.param == "config.dimensions"


def test_what_is_cut_off_is_said(small: Embedded) -> None:
    long = "cat " * 20
    answer = small.answer({"texts": ["cat", long]})
    assert answer.run.warnings == ["Cut off after 16 tokens: text 1 (6 over)."]
    assert vectors(small, long) == pytest.approx(vectors(small, "cat " * 14), abs=1e-6)


def test_words_that_the_model_does_not_know_are_told(small: Embedded) -> None:
    answer = small.answer({"texts": ["cat", "cat \u4f60\u597d"]})
    assert answer.run.warnings == [
        "Words or signs that the model does not know count for nothing in text 1."
    ]
    assert small.answer({"texts": ["cat"]}).run.warnings == []


def test_a_prompt_and_lower_case_of_the_folder_are_used(tmp_path: Path) -> None:
    plain = encoder(tiny.sentence_bert(tmp_path / "plain"))
    settings = {"prompts": {"query": "the "}, "default_prompt_name": "query"}
    prompted = encoder(tiny.sentence_bert(tmp_path / "prompted", lower=True, **settings))
    assert vectors(prompted, "CAT") == pytest.approx(vectors(plain, "the cat"), abs=1e-6)


@pytest.mark.parametrize(
    ("texts", "param"), [(["cat", " \n"], "inputs.texts"), ([], "inputs.texts")]
)
def test_an_empty_text_is_refused_by_its_place(
    small: Embedded, texts: list[str], param: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        small.prepared({"texts": texts}, {})
    assert str(refused.value.param).startswith(param)


def test_nan_is_no_vector(tmp_path: Path) -> None:
    broken = encoder(tiny.sentence_bert(tmp_path))
    with torch.no_grad():
        broken.model._model.embeddings.LayerNorm.weight.fill_(float("nan"))
    with pytest.raises(InvalidModelOutput, match="NaN"):
        vectors(broken, TEXTS)


def test_a_checkpoint_that_lacks_tensors_is_refused_and_not_filled_up(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    folder = tiny.sentence_bert(tmp_path)
    state = safetensors.load_file(folder / "model.safetensors")
    del state["encoder.layer.1.output.dense.weight"]
    safetensors.save_file(state, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(WeightsUnavailable, match=r"lacks 1 tensors, as encoder\.layer\.1"):
        encoder(folder)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsUnavailable, match="holds no AutoModel"):
        encoder(tmp_path)


def test_a_step_that_jumar_lacks_is_refused(tmp_path: Path) -> None:
    folder = tiny.sentence_bert(tmp_path)
    (folder / "modules.json").write_text(
        '[{"type": "sentence_transformers.models.Dense", "path": ""}]'
    )
    with pytest.raises(WeightsUnavailable, match="Dense"):
        Recipe.read(folder)
    tiny.sentence_bert(folder, pooling=("weightedmean_tokens",))
    with pytest.raises(WeightsUnavailable, match="weightedmean_tokens"):
        Recipe.read(folder)


LENGTHS = st.lists(st.integers(1, 500), max_size=60)


def cost(groups: list[list[int]], lengths: list[int], forward: int) -> int:
    """Tokens with padding, and the forwards."""
    return sum(forward + len(group) * max(lengths[at] for at in group) for group in groups)


@given(LENGTHS, st.integers(1, 16), st.integers(100, 2000), st.integers(0, 500))
def test_every_text_is_in_one_batch_and_none_is_too_big(
    lengths: list[int], most_texts: int, most_tokens: int, forward: int
) -> None:
    groups = list(batches(lengths, most_texts, most_tokens, forward))
    assert sorted(place for group in groups for place in group) == [*range(len(lengths))]
    for group in groups:
        padded = len(group) * max(lengths[place] for place in group)
        assert len(group) <= most_texts
        assert padded <= most_tokens or len(group) == 1


def divisions(places: tuple[int, ...]) -> Iterator[list[list[int]]]:
    """Every way to put places into groups."""
    if not places:
        yield []
        return
    first, *rest = places
    for with_first in (c for n in range(len(rest) + 1) for c in combinations(rest, n)):
        others = tuple(place for place in rest if place not in with_first)
        for more in divisions(others):
            yield [[first, *with_first], *more]


@given(st.lists(st.integers(1, 300), min_size=1, max_size=6), st.integers(0, 300))
def test_no_other_division_costs_less(lengths: list[int], forward: int) -> None:
    found = cost(list(batches(lengths, 99, 10**6, forward)), lengths, forward)
    assert found == min(
        cost(groups, lengths, forward) for groups in divisions(tuple(range(len(lengths))))
    )


def test_texts_of_two_lengths_are_computed_apart_unless_a_forward_is_dearer_than_padding() -> None:
    lengths = [5, 200] * 16
    assert [len(group) for group in batches(lengths, 32, 16_384, 40)] == [16, 16]
    assert [len(group) for group in batches(lengths, 32, 16_384, 10_000)] == [32]


MIXED = [
    " ".join(["cat", "dog", "mat", "ran"][n % 4] for n in range(k)) for k in (1, 13, 3, 9, 9, 2)
]


def test_texts_in_one_row_say_what_they_say_padded_and_in_company(tmp_path: Path) -> None:
    model = encoder(tiny.sentence_bert(tmp_path))
    assert model.model._packs, "on a CPU"
    together = vectors(model, MIXED * 3)
    alone = np.concatenate([vectors(model, text) for text in MIXED * 3])
    model.model._packs = False
    model.model._model.set_attn_implementation("sdpa")
    padded = vectors(model, MIXED * 3)
    assert together == pytest.approx(padded, abs=1e-5)
    assert together == pytest.approx(alone, abs=1e-5)


def test_attention_over_the_whole_row_would_show(tmp_path: Path) -> None:
    """The control: were texts not kept apart, their vectors would be others."""
    model = encoder(tiny.sentence_bert(tmp_path)).model._model
    model.set_attn_implementation(ATTENTION)
    tokens = [[2, 5, 6, 7, 3], [2, 9, 3]]
    apart, mixed = Packing.of([5, 3]), Packing.of([8])
    row = apart.inputs(tokens)
    with torch.no_grad():
        right = model(**row, packing=apart).last_hidden_state
        wrong = model(**row, packing=mixed).last_hidden_state
    assert right.shape == wrong.shape == (1, 8, 32)
    assert (right - wrong).abs().max() > 1e-3


@given(st.lists(st.integers(1, 40), min_size=1, max_size=12))
def test_a_row_taken_apart_is_what_was_put_in(lengths: list[int]) -> None:
    ordered = sorted(lengths, reverse=True)
    packing = Packing.of(ordered)
    tokens = [[100 * at + place for place in range(n)] for at, n in enumerate(ordered)]
    row = packing.inputs(tokens)
    assert row["position_ids"][0].tolist() == [place for n in ordered for place in range(n)]
    states, mask = packing.apart(row["input_ids"][..., None])
    assert mask.sum(1).tolist() == ordered
    assert [states[at, :n, 0].tolist() for at, n in enumerate(ordered)] == tokens
    assert [group.end for group in packing.groups][-1] == sum(ordered)


@pytest.mark.models
def test_the_embedded_encoder_says_what_its_model_card_says(minilm: Embedded) -> None:
    """sentence-transformers/all-MiniLM-L6-v2, the similarities of its card."""
    happy, dog, very, sunny = vectors(
        minilm,
        [
            "That is a happy person",
            "That is a happy dog",
            "That is a very happy person",
            "Today is a sunny day",
        ],
    )
    assert [happy @ dog, happy @ very, happy @ sunny] == pytest.approx(
        [0.695, 0.943, 0.257], abs=3e-3
    )


@pytest.mark.models
def test_the_embedded_encoder_batches_without_changing_anything(minilm: Embedded) -> None:
    texts = [
        "short",
        "a little longer than that",
        "word " * 120,
        "The cat sits outside.",
        "你好 😀",
    ]
    together = vectors(minilm, texts)
    for text, vector in zip(texts, together, strict=True):
        assert vector == pytest.approx(vectors(minilm, text)[0], abs=1e-5)

"""Answers are compared by quantity: rounding passes, wrong answers do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import InvalidValue
from jumar.parity import QUANTITIES, Answer, apart, distance
from jumar.parity.answers import ROUNDINGS

NUMERIC = [name for name, kind in QUANTITIES.items() if kind.limits is not None]
EPSILON = {"cpu": 2.0**-24, "fp32": 2.0**-24, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Half a unit in the last place of 1 (IEEE 754; bfloat16 has 8 bits of significand)."""


def sample(quantity: str, seed: int = 0) -> np.ndarray:
    """An answer such as a model would give."""
    random = np.random.default_rng(seed)
    if quantity == "picture":
        return random.integers(0, 256, (32, 32, 3)).astype(np.float64)
    if quantity == "sound":
        pitch = random.uniform(0.05, 0.5)
        return np.sin(np.arange(24_000) * pitch) * 8000 + random.normal(0, 100, 24_000)
    if quantity == "probability":
        return random.dirichlet(np.ones(10))
    if quantity == "cosine":
        return random.uniform(-1, 1, 32)
    return random.normal(size=384)


def rounded(values: np.ndarray, rounding: str, seed: int) -> np.ndarray:
    """Each number up to one unit in the last place of the format away."""
    random = np.random.default_rng(seed)
    return values * (1 + 2 * EPSILON[rounding] * random.uniform(-1, 1, values.shape))


@pytest.mark.parametrize("quantity", NUMERIC)
@pytest.mark.parametrize("rounding", ROUNDINGS)
@given(seed=st.integers(0, 2**16))
def test_rounding_of_the_format_is_no_difference(quantity: str, rounding: str, seed: int) -> None:
    right = sample(quantity, seed)
    told = Answer(quantity, rounded(right, rounding, seed))
    assert apart(Answer(quantity, right), told, rounding=rounding) is None


@pytest.mark.parametrize("quantity", NUMERIC)
@pytest.mark.parametrize("rounding", ROUNDINGS)
def test_another_answer_is_a_difference_in_every_format(quantity: str, rounding: str) -> None:
    off = apart(
        Answer(quantity, sample(quantity, 1)),
        Answer(quantity, sample(quantity, 2)[::-1]),
        rounding=rounding,
    )
    assert off is not None
    assert off.distance > off.limit
    assert f"over the limit of {off.limit:g}" in off.reason


@pytest.mark.parametrize("quantity", NUMERIC)
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_never_pass(quantity: str, bad: float) -> None:
    right = sample(quantity)
    wrong = right.copy()
    wrong.flat[3] = bad
    assert apart(Answer(quantity, right), Answer(quantity, wrong), rounding="bf16") is not None
    assert apart(Answer(quantity, wrong), Answer(quantity, wrong), rounding="bf16") is not None


def test_another_shape_is_a_difference() -> None:
    pair = Answer("vector", np.zeros(3)), Answer("vector", np.zeros(4))
    assert distance(*pair) == np.inf


def test_a_patch_of_a_picture_counts_though_the_mean_is_small() -> None:
    right = np.full((256, 256, 3), 100.0)
    wrong = right.copy()
    wrong[8:16, 8:16] += 40.0
    assert np.abs(wrong - right).mean() < QUANTITIES["picture"].limit("fp32")
    assert apart(Answer("picture", right), Answer("picture", wrong), rounding="fp32") is not None


def test_a_sound_that_is_shifted_by_a_phase_sounds_the_same() -> None:
    time = np.arange(24_000) / 24_000
    waves = [np.sin(2 * np.pi * 440 * time + phase) for phase in (0.0, 1.0)]
    assert np.linalg.norm(waves[0] - waves[1]) > 0.5 * np.linalg.norm(waves[0])
    assert distance(*(Answer("sound", wave) for wave in waves)) < QUANTITIES["sound"].limit("fp16")


@pytest.mark.parametrize("quantity", ["words", "label", "span", "count"])
def test_words_labels_offsets_and_counts_are_equal_or_not(quantity: str) -> None:
    assert apart(Answer(quantity, "abc"), Answer(quantity, "abc"), rounding="bf16") is None
    off = apart(Answer(quantity, "abc"), Answer(quantity, "abd"), rounding="bf16")
    assert off is not None
    assert off.reason == "'abd', not 'abc'"


def test_a_label_may_turn_over_only_where_it_was_a_close_race() -> None:
    def judged(margin: float, rounding: str) -> bool:
        wanted, got = Answer("label", "math", margin), Answer("label", "health")
        return apart(wanted, got, rounding=rounding) is None

    assert judged(0.03, "bf16")
    assert not judged(0.05, "bf16")
    assert not judged(0.03, "cpu")


def test_an_unknown_quantity_names_the_nearest() -> None:
    with pytest.raises(InvalidValue) as caught:
        Answer("vectors", np.zeros(1))
    assert caught.value.hint is not None
    assert "vector" in caught.value.hint


def test_quantities_are_not_compared_with_others() -> None:
    off = apart(Answer("words", "a"), Answer("label", "a"), rounding="cpu")
    assert off is not None
    assert "not a words" in off.reason

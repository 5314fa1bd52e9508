"""Tokens become words, and words get times: against other implementations and by hand."""

from __future__ import annotations

from dataclasses import astuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.runtime.families.transcription import alignment
from jumar.runtime.families.transcription.alignment import beginnings, settled
from jumar.runtime.families.transcription.transcript import Word
from jumar.runtime.families.transcription.words import words

np = pytest.importorskip("numpy")

PIECES = {
    0: " Hello",
    1: ",",
    2: " wor",
    3: "ld",
    4: ".",
    5: b"\xe4\xbd",
    6: b"\xa0",
    7: " (",
    8: ")",
}


def decode(tokens: list[int]) -> str:
    parts = (PIECES[token] for token in tokens)
    joined = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
    return joined.decode("utf-8", errors="replace")


def test_a_word_begins_with_a_space_and_keeps_its_punctuation() -> None:
    assert words([0, 1, 2, 3, 4], decode, spaced=True) == [
        ("Hello,", [0, 1], 1),
        ("world.", [2, 3, 4], 2),
    ]


def test_a_character_of_two_tokens_is_not_torn_apart() -> None:
    assert words([5, 6, 5, 6, 4], decode, spaced=False) == [
        ("你", [0, 1], 2),
        ("你.", [2, 3, 4], 2),
    ]


def test_no_token_is_lost() -> None:
    for tokens in ([1, 0], [0, 7, 3, 8, 4], [5], [4, 4], []):
        found = words(tokens, decode, spaced=True)
        assert [at for _, positions, _ in found for at in positions] == [*range(len(tokens))]


@settings(deadline=None)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_warping_finds_what_transformers_finds(rows: int, columns: int, seed: int) -> None:
    generation = pytest.importorskip("transformers.models.whisper.generation_whisper")
    cost = np.random.default_rng(seed).normal(size=(rows, columns))
    texts, times = generation._dynamic_time_warping(cost)
    entered = times[np.pad(np.diff(texts), (1, 0), constant_values=1).astype(bool)]
    assert alignment._warp(cost).tolist() == entered.tolist()


def test_positions_begin_where_attention_goes_to() -> None:
    frames = [0, 20, 45, 60]
    attention = np.full((2, 4, 100), 1e-3, np.float32)
    for row, (begin, end) in enumerate(zip(frames, [*frames[1:], 100], strict=True)):
        attention[:, row, begin:end] = 1.0
    assert beginnings(attention) == pytest.approx(frames, abs=4)


def times(found: list[Word]) -> list[tuple[float, float]]:
    return [(word.start, word.end) for word in found]


SAID = [Word(0.0, 1.0, "One.", 0.9), Word(1.8, 2.5, "Two", 0.9), Word(2.5, 3.0, "three.", 0.9)]


def test_a_pause_lies_between_words() -> None:
    moved = settled(SAID, [(0.0, 0.4), (0.9, 2.0), (3.1, 4.0)])
    assert times(moved) == [(0.4, 0.9), (2.0, 2.5), (2.5, 3.1)]


def test_a_pause_far_from_any_boundary_moves_nothing() -> None:
    long = [Word(0.0, 4.0, "Mmmm.", 0.9)]
    assert settled(long, [(1.8, 2.2)]) == long


def test_no_word_is_turned_around_by_a_pause() -> None:
    short = [Word(1.0, 1.0, "a", 0.9), Word(1.0, 1.1, "b", 0.9)]
    for word in settled(short, [(0.9, 1.2)]):
        assert word.start <= word.end


@given(
    st.lists(st.floats(0, 20), min_size=4, max_size=20),
    st.lists(st.floats(0, 20), max_size=8),
)
def test_settled_words_stay_in_order(edges: list[float], pauses: list[float]) -> None:
    edges, pauses = sorted(round(edge, 2) for edge in edges), sorted(pauses)
    said = [Word(*pair, "w", 1.0) for pair in zip(edges[::2], edges[1::2], strict=False)]
    moved = settled(said, [*zip(pauses[::2], pauses[1::2], strict=False)])
    flat = [edge for word in moved for edge in astuple(word)[:2]]
    assert flat == sorted(flat)

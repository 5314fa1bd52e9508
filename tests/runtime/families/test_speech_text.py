"""What an English voice can say of a text, and that nothing of it is lost in silence."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.runtime.families.speech.text import (
    LONGEST_WORD,
    has_words,
    in_parts,
    named,
    readable,
    silent,
    unsayable,
    whole,
)

pytest.importorskip("hibari")


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("Hello 你好 world", "你好"),
        ("Привет", "Привет"),
        ("Ω and α", "Ωα"),
        ("नमस्ते", "नमसत"),
        ("안녕", "안녕"),
        ("the number 三", "三"),
        ("ↂ", "ↂ"),
        ("a lone \ud83d surrogate", "\ud83d"),
    ],
)
def test_letters_and_digits_of_other_scripts_are_named(text: str, lost: str) -> None:
    assert "".join(unsayable(text)) == lost


@pytest.mark.parametrize(
    "text",
    [
        "Hello.",
        "café, naïve, Łódź, straße, Þór",
        "½ cup, x², 5 µm",
        "٣ apples",
        "ＡＢＣ",
        "Hawaiʻi",
        "😀",
    ],
)
def test_latin_letters_all_digits_and_symbols_are_sayable(text: str) -> None:
    assert unsayable(text) == []


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("ＡＢＣ　ｄｅｆ", "ABC\u3000def"),
        ("𝓗𝓮𝓵𝓵𝓸", "Hello"),
        ("e\u0301tude", "étude"),
        ("café", "café"),
        ("Ëve and Ðe", "Eve and ðe"),
        ("⅓ of ½", "1/3 of ½"),
        ("٣٤", "34"),
        ("s\u0336t\u0336ruck", "struck"),
        ("soft\u00adhyphen, zero\u200bwidth, \x07bell", "softhyphen, zerowidth, bell"),
        ("[word](/sounds/)", "[word] (/sounds/)"),
    ],
)
def test_a_text_is_put_into_letters_that_the_reader_knows(text: str, plain: str) -> None:
    assert readable(text) == plain


def test_a_number_beyond_all_words_for_numbers_is_read_digit_by_digit() -> None:
    assert readable("1" * 36) == "1" * 36
    assert readable("1" * 37) == " ".join("1" * 37)
    assert readable("1," * 40).startswith("1, 1, 1, ")


def test_a_word_longer_than_the_speller_can_see_is_cut_and_named() -> None:
    long = "x" * (2 * LONGEST_WORD + 3)
    text, cut = in_parts(f"the {long} word", lambda word: False)
    assert text == f"the {'x' * 24} {'x' * 24} xxx word"
    assert cut == [long]
    assert in_parts(f"the {long} word", lambda word: word == long) == (f"the {long} word", [])


def test_a_long_run_of_words_gets_gaps_and_loses_nothing() -> None:
    address = "https://example.com/some/rather/long/path?with=1&many=2&parameters=3#and-an-anchor"
    pieces = readable(address).split(" ")
    assert "".join(pieces) == address
    assert max(map(len, pieces)) <= 32
    assert readable("well-known") == "well-known"


def test_digits_that_the_reader_drops_are_set_apart_from_the_letters() -> None:
    def sounds(text: str) -> str:
        return "".join(c for c in text if c.isalpha() or (c == "8" and " " in text))

    assert whole("see /EVOEP88E/ there", sounds) == ("see /EVOEP 88 E/ there", [])
    assert whole("see /EVOEP/ there", sounds) == ("see /EVOEP/ there", [])


def test_a_word_that_makes_no_sound_at_all_is_named() -> None:
    assert whole("say xŁ now …", lambda text: text.replace("xŁ", "")) == ("say xŁ now …", ["xŁ"])


def test_a_symbol_is_silent_where_it_makes_no_difference() -> None:
    def sounds(text: str) -> str:
        return text.replace("★", "").replace("+", "plus").replace(" ", "")

    assert silent("1 + 1 ★ ★", sounds) == ["★"]
    assert silent("stop. (really) “yes” – no", sounds) == []


def test_only_letters_and_digits_are_words() -> None:
    assert has_words("a") and has_words("5") and has_words("½")
    assert not has_words("😀 … !!! % \n")


def test_characters_are_named_so_that_they_can_be_printed() -> None:
    assert named(["你", "\ud83d", "\u200b"]) == "你 U+D83D U+200B"
    assert named(list("abcdefghijklmnop")) == "a b c d e f g h i j k l and 4 more"


@given(st.text())
def test_every_letter_and_digit_is_read_or_named(text: str) -> None:
    """Whatever is not named ends in characters that the reader has a sound for, or a symbol."""
    rest = "".join(c for c in unicodedata.normalize("NFC", text) if c not in unsayable(text))
    assert unsayable(readable(rest)) == []
    assert readable(readable(rest)) == readable(rest)
    kept = sum(unicodedata.category(c)[0] in "LN" for c in rest)
    assert sum(unicodedata.category(c)[0] in "LN" for c in readable(rest)) >= kept

"""What of a text an English voice can say, and how it has to be written for it.

hibari's reader leaves out what it does not know without a word: letters of other scripts, words
after their 24th letter, emoji. Numbers of more than 36 digits make it fail. Here such text is
refused, rewritten or named, so that nothing is lost in silence.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from functools import cache

LONGEST_WORD = 24
"""Letters that the reader's speller looks at (`maxlen` in its oov.json)."""

LONGEST_NUMBER = 36
"""Digits up to decillions, the last of the scales that the reader has words for."""

# Superscripts, fractions and the micro sign for which the reader has words of its own.
_READ_AS_WORDS = frozenset("²³½¼¾µ")
_SPELT = {"ħ": "h", "Ħ": "H", "ŧ": "t", "Ŧ": "T", "ʻ": "'", "ʼ": "'"}
_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")
_NUMBER = re.compile(r"\d[\d,]*")
_ATOM = re.compile(r"\d+|(?:[^\W\d_]|['’])+|[\W_]")
_RUN = 32
_LONG_RUN = re.compile(rf"\S{{{2 * _RUN},}}")
_MIXED = re.compile(r"\d[^\W\d_]|[^\W\d_]\d")
_SIDE = 40


def unsayable(text: str) -> list[str]:
    """The letters and digits that the voice has no sound for, each once, in order."""
    return [c for c in dict.fromkeys(unicodedata.normalize("NFC", text)) if _reading(c) is None]


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit in it."""
    return any(unicodedata.category(c)[0] in "LN" for c in text)


def readable(text: str) -> str:
    """The text in letters that the reader knows; nothing in it is mark-up.

    Accents that English does not know are taken off, full-width and styled letters become plain,
    very long numbers are written digit by digit. Raises KeyError for nothing: what is `unsayable`
    is left out, so ask that first.
    """
    letters = "".join(_reading(c) or "" for c in unicodedata.normalize("NFC", text))
    # "[word](/sounds/)" is hibari's mark-up; a prompt is words, all of which are said.
    numbers = _NUMBER.sub(_digit_by_digit, letters.replace("](", "] ("))
    return _LONG_RUN.sub(_with_gaps, numbers)


def in_parts(text: str, known: Callable[[str], bool]) -> tuple[str, list[str]]:
    """The text with too long words cut, and those words. `known` words are read whole."""
    cut: list[str] = []

    def shorten(match: re.Match[str]) -> str:
        word = match.group()
        if len(word) <= LONGEST_WORD or known(word):
            return word
        cut.append(word)
        return " ".join(word[at : at + LONGEST_WORD] for at in range(0, len(word), LONGEST_WORD))

    return _WORD.sub(shorten, text), cut


def whole(text: str, sounds: Callable[[str], str]) -> tuple[str, list[str]]:
    """The text with every word such that it is heard, and the words for which there is no way.

    The reader drops the digits of some words ("/EVOEP88E/"); they are set apart from the letters.
    """
    lost: list[str] = []

    def heard(match: re.Match[str]) -> str:
        word = match.group()
        if not has_words(word):
            return word
        if not any(c.isalpha() for c in sounds(word)):
            lost.append(word)
        if _MIXED.search(word) and sounds(word) == sounds(re.sub(r"\d", "", word)):
            return " ".join(re.findall(r"\d+|\D+", word))
        return word

    return re.sub(r"\S+", heard, text), lost


def silent(text: str, sounds: Callable[[str], str]) -> list[str]:
    """The symbols of a text that make no difference to its `sounds`, each once, in order.

    Each is judged where it stands first, among up to 40 characters on either side.
    """
    return [
        symbol
        for symbol in dict.fromkeys(c for c in text if _is_symbol(c))
        if _makes_no_sound(text, text.index(symbol), sounds)
    ]


def named(characters: list[str], limit: int = 12) -> str:
    """The characters for a message, those that cannot be printed by their number."""
    shown = [c if c.isprintable() else f"U+{ord(c):04X}" for c in characters[:limit]]
    more = len(characters) - limit
    return " ".join(shown) + (f" and {more} more" if more > 0 else "")


@cache
def _reading(character: str) -> str | None:
    """What is given to the reader for it; None for a letter or digit that has no sound."""
    if (character.isascii() and character.isprintable()) or character.isspace():
        return character
    if character in _READ_AS_WORDS:
        return character
    category = unicodedata.category(character)
    if category == "Nd":
        return str(unicodedata.digit(character))
    if category[0] == "N":
        plain = unicodedata.normalize("NFKC", character).replace("⁄", "/")
        return plain if plain.isascii() else None
    if category[0] == "L":
        return _letter(character)
    if category == "Cs":
        return None
    # Marks that no letter took up, controls and format characters have no sound of their own.
    return "" if category[0] == "M" or category in ("Cc", "Cf") else character


def _letter(character: str) -> str | None:
    if character in _alphabet():
        return character
    decomposed = unicodedata.normalize("NFKD", character)
    plain = "".join(c for c in decomposed if not unicodedata.combining(c))
    if plain.isascii():
        return plain
    lower = character.lower()
    return lower if lower in _alphabet() else _SPELT.get(character)


@cache
def _alphabet() -> frozenset[str]:
    """The Latin letters that the reader's speller has learnt, from the library's own table.

    Its table has Greek, Cyrillic and other letters as well; what it makes of them is no speech.
    """
    from importlib.resources import files

    table = json.loads(files("hibari").joinpath("assets/oov.json").read_text("utf-8"))
    return frozenset(c for c in table["in"] if unicodedata.name(c, "").startswith("LATIN"))


def _digit_by_digit(match: re.Match[str]) -> str:
    number = match.group()
    if sum(c.isdigit() for c in number) <= LONGEST_NUMBER:
        return number
    return " ".join(number).replace(" ,", ",")


def _with_gaps(match: re.Match[str]) -> str:
    """A long run of words without a space ("a-b-c-…", an address) in pieces of some 32 characters:
    the reader's time grows with the third power of the number of words in a run."""
    pieces = [""]
    for atom in _ATOM.findall(match.group()):
        if pieces[-1] and len(pieces[-1]) + len(atom) > _RUN:
            pieces.append("")
        pieces[-1] += atom
    return " ".join(pieces)


def _is_symbol(character: str) -> bool:
    category = unicodedata.category(character)
    return category[0] == "S" or category in ("Cn", "Co")


def _makes_no_sound(text: str, at: int, sounds: Callable[[str], str]) -> bool:
    before, after = text[max(0, at - _SIDE) : at], text[at + 1 : at + 1 + _SIDE]
    heard = sounds(before + text[at] + after)
    return any(heard == sounds(before + gap + after) for gap in ("", " "))

"""Tokens to words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

_UNFINISHED = "\ufffd"
_CLOSING = frozenset("\"'.。,，!！?？:：;；”’)]）】}、…%")

Piece = tuple[str, list[int]]
"""A text and the positions of its tokens."""

Spoken = tuple[str, list[int], int]
"""A word, the positions of its tokens, and how many of these are no closing punctuation."""


def words(
    tokens: Sequence[int], decode: Callable[[list[int]], str], *, spaced: bool
) -> list[Spoken]:
    """Words in order, without spaces, each with its punctuation.

    In a language with spaces a word begins with one; in others every character is a word.
    """
    found: list[tuple[str, list[int], int]] = []
    for text, at in _characters(tokens, decode):
        closes = set(text.strip()) <= _CLOSING
        begins = text[:1].isspace() if spaced else not closes
        if begins or not found:
            found.append((text, at, len(at)))
        else:
            before, positions, spoken = found.pop()
            positions = positions + at
            found.append((before + text, positions, spoken if closes else len(positions)))
    return [(text.strip(), at, spoken) for text, at, spoken in found if text.strip()]


def _characters(tokens: Sequence[int], decode: Callable[[list[int]], str]) -> Iterator[Piece]:
    """The shortest runs of tokens that are whole characters: one may take several tokens."""
    held: list[int] = []
    for position in range(len(tokens)):
        held.append(position)
        text = decode([tokens[at] for at in held])
        if _UNFINISHED not in text or position == len(tokens) - 1:
            yield text, held
            held = []

"""From labels of tokens to stretches of text.

A word has the label of its first token: models of this kind are trained on that one alone. Words
that follow each other with the same name are one stretch, unless a label begins a new one (`B-`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.reporting.readings import Span, name_of

if TYPE_CHECKING:
    import numpy as np

OUTSIDE = frozenset({"O", "o", "OUTSIDE"})
_BEGINS = frozenset("BSU")
"""Prefixes of IOB2, IOBES and BILOU with which a stretch begins."""


@dataclass(frozen=True)
class Word:
    """`start` and `end` in code points, the best label and its probability; `inside`: how many
    tokens of its window stand between it and the nearer edge.
    """

    start: int
    end: int
    label: str
    probability: float
    inside: int


def words(encoding: Any, probabilities: np.ndarray, labels: Sequence[str]) -> list[Word]:
    """The words of one window; probabilities [tokens, labels]."""
    found: dict[int, Word] = {}
    count = len(encoding.ids)
    for at, (word, sequence, (start, end)) in enumerate(
        zip(encoding.word_ids, encoding.sequence_ids, encoding.offsets, strict=True)
    ):
        if word is None or sequence != 0 or start == end:
            continue
        if word in found:
            first = found[word]
            found[word] = Word(first.start, end, first.label, first.probability, first.inside)
            continue
        best = int(probabilities[at].argmax())
        inside = min(at, count - 1 - at)
        found[word] = Word(start, end, labels[best], float(probabilities[at][best]), inside)
    return list(found.values())


def spans(text: str, windows: Iterable[Sequence[Word]]) -> list[Span]:
    """The stretches of a text. A word in several windows counts where most stands around it."""
    kept: Mapping[int, Word] = {}
    for word in (word for window in windows for word in window):
        known = kept.get(word.start)
        if known is None or word.inside > known.inside:
            kept = {**kept, word.start: word}
    groups: list[tuple[str, list[Word]]] = []
    before: Word | None = None
    for word in (kept[start] for start in sorted(kept)):
        prefix, name = name_of(word.label)
        if name in OUTSIDE:
            before = None
            continue
        if before is not None and prefix not in _BEGINS and name_of(before.label)[1] == name:
            groups[-1][1].append(word)
        else:
            groups.append((name, [word]))
        before = word
    return [_span(text, name, group) for name, group in groups]


def _span(text: str, name: str, group: Sequence[Word]) -> Span:
    start, end = group[0].start, group[-1].end
    mean = sum(word.probability for word in group) / len(group)
    return Span(name, start, end, text[start:end], mean)

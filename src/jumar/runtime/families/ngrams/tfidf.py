"""Words and pieces of words, weighed by how rare they are, and a linear model over them.

The weights are those of scikit-learn's `TfidfVectorizer` (user guide, "Tf-idf term weighting"):
each block is 1 + ln(count), times the rarity that training gave the piece, over the block's length.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

FILE = "guardian.runtime.json.gz"
_WORD = re.compile(r"\b\w\w+\b")


@dataclass(frozen=True)
class Block:
    """One kind of pieces: `places` and `rarity` by piece, `first` column of the block."""

    pieces: Callable[[str, int, int], Iterator[str]]
    lengths: tuple[int, int]
    places: dict[str, int]
    rarity: list[float]
    damped: bool
    first: int

    def weights(self, text: str) -> dict[int, float]:
        """Columns and their weights, of length 1 together."""
        counts = Counter(p for p in self.pieces(text, *self.lengths) if p in self.places)
        found = {
            self.places[piece]: (1.0 + math.log(count) if self.damped else count)
            * self.rarity[self.places[piece]]
            for piece, count in counts.items()
        }
        length = math.sqrt(sum(weight * weight for weight in found.values()))
        return {self.first + place: weight / length for place, weight in found.items()}


class Tfidf:
    """`labels`, and how likely each is of a text."""

    def __init__(self, blocks: tuple[Block, ...], labels: tuple[str, ...], linear: Any) -> None:
        self._blocks = blocks
        self.labels = labels
        self._coefficients, self._intercepts = linear

    @classmethod
    def read(cls, folder: Path) -> Tfidf:
        """From a folder with the file."""
        import numpy as np

        raw = json.loads(gzip.decompress((folder / FILE).read_bytes()))
        blocks = (
            _block(raw["word"], word_pieces, 0),
            _block(raw["char"], letter_pieces, int(raw["n_word_features"])),
        )
        linear = np.asarray(raw["coef"], np.float64), np.asarray(raw["intercept"], np.float64)
        return cls(blocks, tuple(raw["classes"]), linear)

    def probabilities(self, text: str) -> np.ndarray:
        """Softmax of the linear model: float64 [labels]."""
        import numpy as np

        weights = {
            at: weight for block in self._blocks for at, weight in block.weights(text).items()
        }
        columns = self._coefficients[:, list(weights)]
        scores = self._intercepts + columns @ np.fromiter(
            weights.values(), np.float64, len(weights)
        )
        grown = np.exp(scores - scores.max())
        shares: np.ndarray = grown / grown.sum()
        return shares


def word_pieces(text: str, shortest: int, longest: int) -> Iterator[str]:
    """Runs of `shortest` to `longest` words of two letters and more."""
    words = _WORD.findall(text.lower())
    for count in range(shortest, longest + 1):
        for at in range(len(words) - count + 1):
            yield " ".join(words[at : at + count])


def letter_pieces(text: str, shortest: int, longest: int) -> Iterator[str]:
    """Pieces of `shortest` to `longest` letters of each word with a blank around it; a word that is
    shorter than a piece counts once, whole.
    """
    for word in text.lower().split():
        padded = f" {word} "
        for count in range(shortest, longest + 1):
            for at in range(max(1, len(padded) - count + 1)):
                yield padded[at : at + count]
            if count >= len(padded):
                break


def _block(raw: dict[str, Any], pieces: Callable[[str, int, int], Iterator[str]], at: int) -> Block:
    shortest, longest = raw["ngram_range"]
    return Block(pieces, (shortest, longest), raw["vocab"], raw["idf"], raw["sublinear_tf"], at)

"""Pieces of bytes that an automaton finds in one walk over a text, and naive Bayes over them.

The method of langid (Lui and Baldwin 2012, "langid.py: An off-the-shelf language identification
tool"); the file is that of py3langid 0.4: an npz in xz. Scores are divided by the root of the
number of bytes before the softmax, as py3langid does, so that long texts are not always certain.
"""

from __future__ import annotations

import io
import lzma
import unicodedata
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

FILE = "model.npz.xz"


class ByteWalk:
    """`labels`, and how likely each is of a text."""

    def __init__(self, arrays: Any) -> None:
        import numpy as np

        columns: list[str] = arrays["classes"].tolist()
        self.labels = tuple(dict.fromkeys(columns))
        places = {label: at for at, label in enumerate(self.labels)}
        self._label_of = np.asarray([places[name] for name in columns])  # some have two columns
        self._prior = arrays["pc"]
        self._likely = arrays["ptc"]
        self._next = arrays["nextmove"].tolist()
        self._rows = [row << 8 for row in arrays["nextmove_row"].tolist()]
        self._found: list[int] = arrays["out_feat"].tolist()

    @classmethod
    def read(cls, folder: Path) -> ByteWalk:
        """From a folder with the file."""
        import numpy as np

        with np.load(io.BytesIO(lzma.decompress((folder / FILE).read_bytes()))) as arrays:
            return cls(arrays)

    def probabilities(self, text: str) -> np.ndarray:
        """float32 [labels]; all alike where nothing in the text is known."""
        import numpy as np

        content = unicodedata.normalize("NFC", text.lower() if text.isupper() else text)
        said = content.encode("utf-8", "surrogatepass")
        counts = self._counts(said)
        scores: Any = np.zeros(len(self._prior), np.float32)
        if counts:
            places = np.fromiter(counts.keys(), np.intp, len(counts))
            times = np.fromiter(counts.values(), np.float32, len(counts))
            scores = np.log1p(times) @ self._likely[places] + self._prior
        scores = scores / np.float32(max(1, len(said)) ** 0.5)
        grown = np.exp(scores - scores.max())
        shares: np.ndarray = np.bincount(
            self._label_of, weights=grown / grown.sum(), minlength=len(self.labels)
        )
        return shares

    def _counts(self, said: bytes) -> Counter[int]:
        """How often each piece stands in the bytes."""
        state, counts = 0, Counter[int]()
        for byte in said:
            state = self._next[self._rows[state] + byte]
            if (piece := self._found[state]) >= 0:
                counts[piece] += 1
        return counts

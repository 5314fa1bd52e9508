"""When each token was said: dynamic time warping over cross-attention.

After OpenAI's whisper (`timing.py`): some heads of the decoder look at the place in the sound that
they are writing down. Their weights are normalised over tokens, smoothed over time, averaged, and
the best monotonic path through them says when each token begins. It does not know of pauses, which
it gives to the words around; `settled` takes them away again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING

from jumar.runtime.families.transcription.transcript import Word

if TYPE_CHECKING:
    import numpy as np

_SMOOTH = 7
"""Frames of the median filter, `median_filter_width` of Whisper's configuration."""

_NEAR_S = 0.3


def beginnings(attention: np.ndarray) -> np.ndarray:
    """Attention [heads, n, frames] of n positions → the frame at which each begins, int [n]."""
    return _warp(-_sharpened(attention))


def settled(words: Sequence[Word], pauses: Iterable[tuple[float, float]]) -> list[Word]:
    """The words with each pause between two of them, and not inside one.

    A pause (begin, end in seconds) belongs to the boundary of words that is nearest; one that is
    more than 0.3 s from any is left alone.
    """
    moved = list(words)
    for pause in pauses:
        before, after = min(_boundaries(moved), key=lambda edge: _apart(edge, pause, moved))
        if _apart((before, after), pause, moved) > _NEAR_S:
            continue
        if before is not None and pause[0] > moved[before].start:
            moved[before] = replace(moved[before], end=round(pause[0], 2))
        if after is not None and pause[1] < moved[after].end:
            moved[after] = replace(moved[after], start=round(pause[1], 2))
    return moved


def _boundaries(words: list[Word]) -> list[tuple[int | None, int | None]]:
    """The places before the first word, between two, and after the last, as their neighbours."""
    places = range(len(words))
    return [*zip((None, *places), (*places, None), strict=True)]


def _apart(
    edge: tuple[int | None, int | None], pause: tuple[float, float], words: list[Word]
) -> float:
    """Seconds between a pause and the gap at a boundary; 0 where they overlap."""
    begin = -inf if edge[0] is None else words[edge[0]].end
    end = inf if edge[1] is None else words[edge[1]].start
    return max(0.0, begin - pause[1], pause[0] - end)


def _sharpened(attention: np.ndarray) -> np.ndarray:
    """[heads, n, frames] → float64 [n, frames], high where a position listens."""
    import numpy as np

    weights: np.ndarray = attention.astype(np.float64)
    weights /= weights.sum(axis=-1, keepdims=True)
    spread = weights.std(axis=-2, keepdims=True)
    weights = (weights - weights.mean(axis=-2, keepdims=True)) / np.maximum(spread, 1e-12)
    half = _SMOOTH // 2
    padded = np.pad(weights, ((0, 0), (0, 0), (half, half)), mode="edge")
    windows = np.lib.stride_tricks.sliding_window_view(padded, _SMOOTH, axis=-1)
    smooth: np.ndarray = np.median(windows, axis=-1).mean(axis=0)
    return smooth


def _warp(cost: np.ndarray) -> np.ndarray:
    """The column at which the cheapest path from corner to corner enters each row, int [rows].

    Steps go down, right, or both. Cells of one anti-diagonal do not depend on each other, so each
    is computed at once: cell (i, j) stands in `total[i + j, i]`.
    """
    import numpy as np

    rows, columns = cost.shape
    total = np.full((rows + columns - 1, rows), np.inf)
    total[0, 0] = cost[0, 0]
    for diagonal in range(1, rows + columns - 1):
        i = np.arange(max(0, diagonal - columns + 1), min(rows, diagonal + 1))
        left, above = total[diagonal - 1, i], total[diagonal - 1, i - 1]
        both = total[diagonal - 2, i - 1] if diagonal > 1 else np.full(len(i), np.inf)
        above, both = np.where(i > 0, above, np.inf), np.where(i > 0, both, np.inf)
        total[diagonal, i] = cost[i, diagonal - i] + np.minimum(np.minimum(left, above), both)
    return _entries(total, rows, columns)


def _entries(total: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """Walk back from the last corner."""
    import numpy as np

    entered: np.ndarray = np.zeros(rows, int)
    i, j = rows - 1, columns - 1
    while i > 0:
        left = total[i + j - 1, i] if j else np.inf
        above = total[i + j - 1, i - 1]
        both = total[i + j - 2, i - 1] if j else np.inf
        if left < min(above, both):
            j -= 1
            continue
        entered[i] = j
        i, j = (i - 1, j - 1) if both <= above else (i - 1, j)
    return entered

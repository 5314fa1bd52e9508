"""When each token was said: dynamic time warping over cross-attention.

After OpenAI's whisper (`timing.py`): some heads of the decoder look at the place in the sound that
they are writing down. Their weights are normalised over tokens, smoothed over time, averaged, and
the best monotonic path through them says when each token begins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

_SMOOTH = 7
"""Frames of the median filter, `median_filter_width` of Whisper's configuration."""


def beginnings(attention: np.ndarray) -> np.ndarray:
    """Attention [heads, n, frames] of n positions → the frame at which each begins, int [n]."""
    return _warp(-_sharpened(attention))


def _sharpened(attention: np.ndarray) -> np.ndarray:
    """[heads, n, frames] → float64 [n, frames], high where a position listens."""
    import numpy as np

    weights = attention.astype(np.float64)
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

    entered = np.zeros(rows, int)
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

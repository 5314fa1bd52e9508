"""Reads digits and colours in small pictures: a support vector machine and a palette.

The judge is fitted on three quarters of scikit-learn's 1,797 handwritten digits.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

PALETTE = {
    "white": (1.0, 1.0, 1.0),
    "red": (1.0, 0.15, 0.15),
    "green": (0.15, 0.9, 0.2),
    "blue": (0.25, 0.4, 1.0),
    "yellow": (1.0, 0.9, 0.1),
    "purple": (0.75, 0.3, 1.0),
    "orange": (1.0, 0.55, 0.1),
}


def read_digit(pixels: np.ndarray[Any, Any]) -> int:
    """The digit in a picture: uint8 [32, 32, 3]."""
    grey = pixels.max(axis=-1).astype(np.float64) / 255
    small = grey.reshape(8, 4, 8, 4).mean(axis=(1, 3))
    return int(_reader().predict(small.reshape(1, -1))[0])


def read_colour(pixels: np.ndarray[Any, Any]) -> str:
    """The palette's name nearest to the mean of the bright pixels: uint8 [32, 32, 3]."""
    values = pixels.astype(np.float64) / 255
    mean = values[values.max(axis=-1) > 0.5].mean(axis=0)
    mean /= mean.max()
    distances = {name: np.linalg.norm(mean - colour) for name, colour in PALETTE.items()}
    return min(distances, key=lambda name: distances[name])


def accuracy() -> float:
    """The part of the real digits that the judge was not fitted on which it reads right."""
    _, test, _, labels = _split()
    return float((_reader().predict(test) == labels).mean())


@cache
def _reader() -> Any:
    train, _, labels, _ = _split()
    return SVC(C=10, gamma="scale").fit(train, labels)


@cache
def _split() -> Any:
    pictures, labels = load_digits(return_X_y=True)
    return train_test_split(pictures / 16, labels, test_size=0.25, random_state=0, stratify=labels)

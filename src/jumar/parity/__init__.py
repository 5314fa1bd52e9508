"""Comparisons: whether two answers are the same but for rounding, and if not, by how much."""

from jumar.parity.answers import QUANTITIES, Answer, Apart, Quantity, apart, distance
from jumar.parity.numeric import Mismatch, compare

__all__ = [
    "QUANTITIES",
    "Answer",
    "Apart",
    "Mismatch",
    "Quantity",
    "apart",
    "compare",
    "distance",
]

"""Comparisons: whether two answers are the same but for rounding, and if not, by how much."""

from jumar.parity.numeric import Mismatch, compare

__all__ = ["Mismatch", "compare"]

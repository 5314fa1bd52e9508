"""Comparisons: whether two answers are the same but for rounding, and if not, by how much."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.parity.answers import QUANTITIES, Answer, Apart, Quantity, apart, distance

__all__ = ["QUANTITIES", "Answer", "Apart", "Quantity", "apart", "distance"]

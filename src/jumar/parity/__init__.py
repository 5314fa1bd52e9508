"""Comparisons: whether two answers are the same but for rounding, and if not, by how much."""

"""Bringing Jumar, or any image, onto a machine."""

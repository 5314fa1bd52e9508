"""Texts of tools and files to facts: pure functions, by structure, never by offsets."""

"""Vectors from texts, through any encoder of transformers in a sentence-transformers folder."""

from __future__ import annotations

from jumar.runtime.families.encoder.family import Encoder

__all__ = ["Encoder"]

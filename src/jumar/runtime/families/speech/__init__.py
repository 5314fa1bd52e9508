"""Speech from text, through the hibari library and a voice that Jumar has checked."""

from __future__ import annotations

from jumar.runtime.families.speech.family import Speech

__all__ = ["Speech"]

"""Text from speech, through any Whisper of transformers."""

from __future__ import annotations

from jumar.runtime.families.transcription.family import Transcription

__all__ = ["Transcription"]

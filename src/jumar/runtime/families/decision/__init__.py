"""Typed questions about a text, answered by a classifier: what follows from the text, or where."""

from __future__ import annotations

from jumar.runtime.families.decision.family import Decision

__all__ = ["Decision"]

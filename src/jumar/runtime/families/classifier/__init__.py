"""Labels of texts, pairs and stretches: any classifier of transformers, cross-encoders too."""

from __future__ import annotations

from jumar.runtime.families.classifier.family import Classifier

__all__ = ["Classifier"]

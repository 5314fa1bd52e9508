"""The classifier family: check the texts, load the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.classifier.inputs import prepared
from jumar.runtime.families.classifier.model import ClassifierModel
from jumar.runtime.run import Run


class Classifier:
    """`AutoModelForSequenceClassification` or `…TokenClassification`, as the folder says."""

    name = "classifier"
    requires = ("torch", "transformers", "tokenizers", "numpy")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """None: transformers runs wherever torch does."""
        return None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The texts, as lists. Raises InvalidInput."""
        return prepared(request)

    def load(self, plan: LoadPlan, run: Run) -> ClassifierModel:
        """Load the model and its head.

        Raises:
            WeightsUnavailable: the folder holds no classifier.
        """
        return ClassifierModel(plan)

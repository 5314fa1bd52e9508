"""The decision family: questions become texts and pairs that a classifier reads."""

from __future__ import annotations

from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import WeightsUnavailable
from jumar.reporting.entailment import sides_of
from jumar.runtime.families.base import LoadPlan
from jumar.runtime.families.classifier.family import Classifier
from jumar.runtime.families.classifier.heads import head_of
from jumar.runtime.families.decision.model import DecisionModel, asked_of
from jumar.runtime.run import Run


class Decision(Classifier):
    """A classifier that is asked questions: of an NLI head whether sentences follow from the text,
    of a token head where its labels stand. It classifies as well.
    """

    name = "decision"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The texts to read, with a hypothesis beside each for an NLI head.

        Raises:
            InvalidInput: a text is missing or blank, or the state is.
            InvalidRequest: no question can be asked.
        """
        if request.task != "decisions":
            return super().prepare(request)
        return dict(asked_of(request).inputs)

    def load(self, plan: LoadPlan, run: Run) -> DecisionModel:
        """Load the model and its head.

        Raises:
            WeightsUnavailable: the folder holds no classifier, or none of its labels is named
                entailment, so that nobody can say which of its numbers counts.
        """
        folder = plan.weights["model"]
        _, head = head_of(folder, plan.task)
        if head.kind != "token" and (head.kind != "sequence" or sides_of(head.labels) is None):
            raise WeightsUnavailable(
                f"No label of {folder} says entailment: it has {', '.join(head.labels)}.",
                hint="id2label in config.json has to name entailment, and contradiction or"
                " not_entailment.",
            )
        return DecisionModel(plan)

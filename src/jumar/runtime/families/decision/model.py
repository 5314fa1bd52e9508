"""A loaded classifier that answers questions."""

from __future__ import annotations

from dataclasses import replace
from typing import BinaryIO

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidInput
from jumar.reporting.decisions import Asked
from jumar.reporting.decisions import document as written
from jumar.reporting.readings import Head
from jumar.runtime.families.base import Draft
from jumar.runtime.families.classifier.model import ClassifierModel
from jumar.runtime.run import Run


def asked_of(request: ResolvedRequest) -> Asked:
    """The questions of a request for the task `decisions`. Raises InvalidInput, InvalidRequest."""
    inputs = request.inputs
    cuts = request.config.get("overflow") == "truncate"
    return Asked.of(inputs["state"], inputs["questions"], request.manifest.options, cuts=cuts)


class DecisionModel(ClassifierModel):
    """`encode` gives the logits of pairs [n, labels], for the tasks that compare these."""

    def head_for(self, task: str) -> Head:
        """Of an NLI head the logits, but where its own labels are asked for."""
        if task == "classification" or self.head.kind == "token":
            return self.head
        return replace(self.head, kind="entailment")

    def generate(self, run: Run) -> list[Draft]:
        """The answers as one JSON document.

        Raises:
            InvalidInput: the state is over the limit, where `overflow` is `reject`.
            InvalidModelOutput: NaN or infinity.
        """
        if run.request.task != "decisions":
            return super().generate(run)
        asked = asked_of(run.request)
        try:
            values = self.encode(run)
        except InvalidInput as error:
            raise asked.blamed(error) from error
        text = written(asked.answers(self.head_for(run.request.task), values))

        def write(file: BinaryIO) -> None:
            file.write(text.encode())

        return [Draft(kind="text", mime="application/json", suffix=".json", write=write, text=text)]

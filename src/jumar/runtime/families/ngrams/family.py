"""The ngrams family: check the texts, read the numbers, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidModelOutput, WeightsUnavailable
from jumar.devices.base import Placement
from jumar.reporting.readings import Head
from jumar.runtime.families.base import Converter, Draft, LoadPlan
from jumar.runtime.families.classifier.inputs import prepared
from jumar.runtime.families.classifier.model import document
from jumar.runtime.families.ngrams import byte_walk, tfidf
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import numpy as np


class Reader(Protocol):
    """`labels`, and how likely each is of a text."""

    labels: tuple[str, ...]

    def probabilities(self, text: str) -> np.ndarray:
        """Float [labels]."""
        ...


READERS: dict[str, Callable[[Path], Reader]] = {
    "tfidf": tfidf.Tfidf.read,
    "byte-walk": byte_walk.ByteWalk.read,
}
"""By the manifest's option `reader`."""


class Ngrams:
    """Models that count pieces of words or bytes."""

    name = "ngrams"
    requires = ("numpy",)
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """Accelerators: there is nothing that they would compute."""
        cpu = placement.device.kind == "cpu"
        return None if cpu else "it counts pieces of text, which is work for a CPU"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The texts, as a list. Raises InvalidInput."""
        return prepared(request)

    def load(self, plan: LoadPlan, run: Run) -> NgramsModel:
        """Read the numbers.

        Raises:
            WeightsUnavailable: the file is not what the manifest says.
        """
        return NgramsModel(plan)


class NgramsModel:
    """A reader of texts and its labels."""

    dtype = "fp32"

    def __init__(self, plan: LoadPlan) -> None:
        kind = str(plan.manifest.options["reader"])
        folder = plan.weights["model"]
        try:
            self._reader = READERS[kind](folder)
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise WeightsUnavailable(f"{folder} holds no model for {kind}.") from error
        self.head = Head("sequence", self._reader.labels)

    def generate(self, run: Run) -> list[Draft]:
        """The results as one JSON document."""
        return [document(self.head, list(self.encode(run)))]

    def encode(self, run: Run) -> np.ndarray:
        """Probabilities: float32 [n, labels]."""
        import numpy as np

        texts: list[str] = run.inputs["texts"]
        run.emit("tokenized", kept=False, head=self.head.to_dict())
        rows = []
        with run.stage("encode"):
            for place, text in enumerate(texts):
                rows.append(self._reader.probabilities(text))
                run.step(place + 1, len(texts))
        found: np.ndarray = np.stack(rows).astype(np.float32)
        if not np.isfinite(found).all():
            raise InvalidModelOutput("The classifier answered with NaN or infinity.")
        return found

    def close(self) -> None:
        """Drop the numbers."""
        del self._reader

"""The encoder family: check the texts, load the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidInput
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.encoder.model import EncoderModel
from jumar.runtime.run import Run


class Encoder:
    """Any `AutoModel` with a hidden state per token; the folder says how they become one vector."""

    name = "encoder"
    requires = ("torch", "transformers", "tokenizers", "numpy")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """None: transformers runs wherever torch does."""
        return None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The texts, as a list under `texts`.

        Raises:
            InvalidInput: there is none, or one has nothing in it but blanks.
        """
        texts = request.inputs["texts"]
        texts = [texts] if isinstance(texts, str) else list(texts)
        if not texts:
            raise InvalidInput("There is no text to encode.", param="inputs.texts")
        for place, text in enumerate(texts):
            if not text.strip():
                raise InvalidInput(
                    f"Text {place} is empty: it has no vector of its own.",
                    hint="Leave it out, or give it a word.",
                    param=f"inputs.texts.{place}",
                )
        return {**request.inputs, "texts": texts}

    def load(self, plan: LoadPlan, run: Run) -> EncoderModel:
        """Load the model and what its folder says of pooling.

        Raises:
            WeightsUnavailable: the folder holds no encoder, or one with parts that Jumar lacks.
        """
        return EncoderModel(plan)

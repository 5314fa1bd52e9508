"""The transcription family: decode the sound, load the model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidValue
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.sound import decode
from jumar.runtime.families.transcription.activity import RATE
from jumar.runtime.families.transcription.ct2 import ct2_whisper
from jumar.runtime.families.transcription.model import Whisper
from jumar.runtime.run import Run


class Transcription:
    """Any `WhisperForConditionalGeneration` of transformers.

    The manifest's `options.languages` names what the model understands.
    """

    name = "transcription"
    requires = ("torch", "transformers", "tokenizers", "safetensors", "onnxruntime", "numpy", "av")
    converters: Mapping[str, Converter] = MappingProxyType({"ct2_whisper": ct2_whisper})

    def refuses(self, placement: Placement) -> str | None:
        """None: transformers runs wherever torch does."""
        return None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The sound as mono float32 at 16 kHz, under `audio`.

        Raises:
            InvalidInput: a file that is no sound, or too long a one.
            InvalidValue: a language that the model has not learnt.
        """
        languages = request.manifest.options.get("languages")
        language = request.config.get("language")
        if languages and language not in (*languages, None) and not request.config["model_path"]:
            raise InvalidValue(
                f"{request.manifest.id} does not understand {language!r}.",
                hint=f"It understands: {', '.join(languages)}.",
                param="config.language",
            )
        sound = decode(request.inputs["audio"], RATE, param="inputs.audio")
        return {**request.inputs, "audio": sound}

    def load(self, plan: LoadPlan, run: Run) -> Whisper:
        """Load the model, and the voice activity detector where the manifest has one.

        Raises:
            WeightsUnavailable: the folder holds no Whisper.
        """
        return Whisper(plan)

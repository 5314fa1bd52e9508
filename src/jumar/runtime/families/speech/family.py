"""The speech family: check the text, load the voice."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidInput, WeightsUnavailable
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.sound import check_rate
from jumar.runtime.families.speech import text
from jumar.runtime.families.speech.voice import FORMAT, RATE, Voice
from jumar.runtime.run import Run


class Speech:
    """The voices of hibari: English, 24 kHz, an ONNX graph each."""

    name = "speech"
    requires = ("hibari", "onnxruntime", "numpy", "av")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """Anything but the CPU: the library opens its graphs with that provider only."""
        if placement.device.kind == "cpu":
            return None
        return "the hibari library runs its voices with onnxruntime's CPUExecutionProvider only"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The prompt, in letters that the voice can read.

        Raises:
            InvalidInput: nothing to say, or letters without a sound in English.
            InvalidValue: a sample rate that the file format cannot have.
        """
        prompt = request.inputs["prompt"]
        if lost := text.unsayable(prompt):
            raise InvalidInput(
                f"This voice speaks English; it has no sound for: {text.named(lost)}",
                hint="Write the prompt in Latin letters, or take another model.",
                param="inputs.prompt",
            )
        if not text.has_words(prompt):
            raise InvalidInput(
                "There is nothing to say: the prompt has no letter and no digit.",
                param="inputs.prompt",
            )
        config = request.config
        check_rate(config["sample_rate"] or RATE, config["response_format"] or FORMAT)
        return {**request.inputs, "prompt": text.readable(prompt)}

    def load(self, plan: LoadPlan, run: Run) -> Voice:
        """Open the voice's graph and the reader's tables.

        Raises:
            WeightsUnavailable: there is no voice in the weights.
        """
        return Voice(_graph(plan.weights["model"]))


def _graph(path: Path) -> Path:
    """The one ONNX file of a voice: given itself, or in a folder, where `hibari.onnx` is first."""
    if path.is_file():
        return path
    graphs = [path / "hibari.onnx"] if (path / "hibari.onnx").is_file() else [*path.glob("*.onnx")]
    if len(graphs) != 1:
        raise WeightsUnavailable(
            f"{path} holds {len(graphs)} ONNX files; a voice is one.",
            hint="Name the file itself as model_path.",
        )
    return graphs[0]

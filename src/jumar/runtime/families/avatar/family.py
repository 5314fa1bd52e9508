"""The avatar family: a picture and a sound become a video, by a script of the model's authors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidValue
from jumar.devices.base import Placement
from jumar.runtime.families import picture
from jumar.runtime.families.avatar.checkout import find
from jumar.runtime.families.avatar.launch import VISIBLE, launch_of
from jumar.runtime.families.avatar.script import Script
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.sound import decode
from jumar.runtime.run import Run

_RATE = 8_000


class Avatar:
    """Each request is one run of the script. Jumar executes no code but that of a checkout which
    the operator names himself (`repo_path`).

    A model that stays loaded between requests would be another `Model` that `load` returns.
    """

    name = "avatar"
    requires = ("av", "numpy", "PIL")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """Devices whose visibility cannot be narrowed for a child, the CPU above all."""
        return None if placement.device.kind in VISIBLE else "its script needs an NPU or a CUDA GPU"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """`image` as an upright `Picture`, `audio` as the path of a file that holds sound.

        Raises:
            InvalidInput: a picture or a sound that cannot be read.
            InvalidValue: `model_path`, which such models have under another name.
        """
        if request.config["model_path"] is not None:
            raise InvalidValue(
                f"{request.manifest.id} has its weights in ckpt_dir, not in model_path.",
                param="config.model_path",
            )
        audio = Path(request.inputs["audio"]).expanduser()
        decode(audio, _RATE, param="inputs.audio")
        image = picture.read(request.inputs["image"], name="image")
        return {**request.inputs, "image": image, "audio": audio.absolute()}

    def load(self, plan: LoadPlan, run: Run) -> Script:
        """Look that everything the script needs is there; it loads the model itself, each time.

        Raises:
            WeightsUnavailable: no checkout is named, or it lacks the script or weights.
            DependencyMissing: there is no such Python, or no such launcher.
            InvalidValue: cards or processes that do not fit, a script to source that is missing.
        """
        return Script(plan, find(plan), launch_of(plan))

"""The diffusion family: read the pictures, load the pipeline."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.diffusion.adapters import check_adapters
from jumar.runtime.families.diffusion.inputs import read_pictures
from jumar.runtime.families.diffusion.model import DiffusionModel
from jumar.runtime.families.diffusion.together import company
from jumar.runtime.run import Run


class Diffusion:
    """Any pipeline of diffusers. What a manifest says of one stands in `keys`."""

    name = "diffusion"
    requires = ("torch", "diffusers", "transformers", "accelerate", "PIL", "av")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """None: diffusers runs wherever torch does."""
        return None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The inputs, with every picture opened, checked and brought to size.

        Raises:
            InvalidInput: a picture that cannot be used, or an adapter that is not there.
        """
        check_adapters(request.adapters)
        return read_pictures(request)

    def company(self, request: ResolvedRequest, inputs: Mapping[str, Any]) -> tuple[Hashable, int]:
        """Which requests may be drawn in one call with this one, and how many pictures it is."""
        return company(request, inputs)

    def load(self, plan: LoadPlan, run: Run) -> DiffusionModel:
        """Load the pipeline of the plan's task; the model's other tasks share its weights.

        Raises:
            WeightsUnavailable: the folder does not hold this pipeline.
            DependencyMissing: a load-time option needs a package that is not installed.
            InvalidValue: a load-time option that this pipeline or device does not have.
            InvalidInput: an adapter that cannot be read or does not fit.
        """
        return DiffusionModel(plan, run)

"""The remote family: speech from a service; the manifest says how its request is written."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidValue
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.remote.service import Service, address
from jumar.runtime.families.remote.speech import Speech
from jumar.runtime.families.remote.voice import read
from jumar.runtime.run import Run


class Remote:
    """Services with a route that answers JSON, or a form, with sound.

    The manifest's `options`: `route`; `fields`, which names an input or a config key for each field
    of the request; `files`, the same for the files of a form.
    """

    name = "remote"
    requires = ("aiohttp", "av", "numpy")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """Every device of this machine: nothing is computed here."""
        return None if placement.device.kind == "remote" else "a server runs it"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The inputs, a voice to imitate as a `Voice`.

        Raises:
            InvalidInput: a voice that is no sound.
            InvalidValue: `server_url` is no address, or there is a `model_path`.
        """
        if request.config["model_path"] is not None:
            raise InvalidValue(
                f"The weights of {request.manifest.id} are the server's own.",
                param="config.model_path",
            )
        address(request.config["server_url"])
        voice = request.inputs.get("audio")
        return {**request.inputs, "audio": voice and read(voice)}

    def load(self, plan: LoadPlan, run: Run) -> Speech:
        """Note where the service is. Whether it is there shows when it is asked."""
        config = plan.config
        service = Service(address(config["server_url"]), config["api_key"])
        return Speech(service, plan.manifest.options)

"""The remote family: speech from a service; the manifest says how its request is written."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidInput
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, LoadPlan
from jumar.runtime.families.remote.service import Service, address
from jumar.runtime.families.remote.speech import Speech
from jumar.runtime.families.sound import decode
from jumar.runtime.run import Run

_RATE = 8_000


class Remote:
    """Services with a route that answers JSON with sound.

    The manifest's `options`: `route`, and `fields`, which names an input or a config key for each
    field of the request.
    """

    name = "remote"
    requires = ("httpx", "av", "numpy")
    converters: Mapping[str, Converter] = MappingProxyType({})

    def refuses(self, placement: Placement) -> str | None:
        """Every device of this machine: nothing is computed here."""
        return None if placement.device.kind == "remote" else "a server runs it"

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """The inputs, a voice to imitate as a `data:` address: the service sees no file of ours.

        Raises:
            InvalidInput: a voice that is no sound.
            InvalidValue: `server_url` is no address.
        """
        address(request.config["server_url"])
        voice = request.inputs.get("audio")
        return {**request.inputs, "audio": voice and _inline(voice)}

    def load(self, plan: LoadPlan, run: Run) -> Speech:
        """Note where the service is. Whether it is there shows when it is asked."""
        config = plan.config
        service = Service(address(config["server_url"]), config["api_key"])
        return Speech(service, plan.manifest.options)


def _inline(voice: str) -> str:
    if voice.startswith("data:audio/"):
        return voice
    if voice.startswith("data:") or "://" in voice:
        raise InvalidInput(
            "A voice to imitate is a sound file; addresses are not fetched.", param="inputs.audio"
        )
    path = Path(voice).expanduser()
    decode(path, _RATE, param="inputs.audio")
    mime = mimetypes.guess_type(path.name)[0] or "audio/wav"
    return f"data:{mime};base64,{base64.b64encode(path.read_bytes()).decode('ascii')}"

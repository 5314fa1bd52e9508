"""A voice to imitate, on its way to a service: the service sees no file of ours."""

from __future__ import annotations

import base64
import mimetypes
from dataclasses import dataclass, field
from pathlib import Path

from jumar.contracts.errors import InvalidInput
from jumar.runtime.families.sound import decode

_RATE = 8_000


@dataclass(frozen=True)
class Voice:
    """A sound file with its name and media type."""

    name: str
    mime: str
    data: bytes = field(repr=False)

    @property
    def inline(self) -> str:
        """As a `data:` address."""
        return f"data:{self.mime};base64,{base64.b64encode(self.data).decode('ascii')}"


def read(source: str) -> Voice:
    """The file at a path, after it has been decoded once, or the content of a `data:` address.

    Raises:
        InvalidInput: no sound, or an address that somebody would have to fetch.
    """
    if source.startswith("data:audio/"):
        return _of_address(source)
    if source.startswith("data:") or "://" in source:
        raise InvalidInput(
            "A voice to imitate is a sound file; addresses are not fetched.", param="inputs.audio"
        )
    path = Path(source).expanduser()
    decode(path, _RATE, param="inputs.audio")
    return Voice(path.name, mimetypes.guess_type(path.name)[0] or "audio/wav", path.read_bytes())


def _of_address(address: str) -> Voice:
    head, _, payload = address.partition(",")
    mime, _, coding = head.removeprefix("data:").partition(";")
    try:
        if coding != "base64":
            raise ValueError("no base64 data")
        data = base64.b64decode(payload, validate=True)
    except ValueError as error:
        raise InvalidInput(
            f"The data: address of the voice is broken: {error}.",
            hint="data:audio/wav;base64,…",
            param="inputs.audio",
        ) from error
    return Voice(f"voice.{mime.partition('/')[2]}", mime, data)

"""Which source a manifest's text names."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import InvalidValue, did_you_mean
from jumar.runtime.weights.base import Source
from jumar.runtime.weights.folder import Folder

SCHEMES = {
    "hf": "hf:HuggingFace",
    "modelscope": "modelscope:ModelScope",
    "package": "package:Package",
    "wheel": "wheel:Wheel",
}


def source_of(weights: Weights, base: Path | None = None) -> Source:
    """The source that `weights.source` names; a text without a scheme is a file or folder.

    Raises:
        InvalidValue: an unknown scheme, or a locator that its scheme cannot read.
    """
    match = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?", weights.source)
    if match is None:
        return Folder(weights, weights.source, base)
    scheme = match[1].lower()
    if scheme not in SCHEMES:
        raise InvalidValue(
            f"Weights cannot come from {weights.source!r}: unknown scheme {scheme!r}.",
            hint=did_you_mean(scheme, SCHEMES),
            param="source",
        )
    module, _, name = SCHEMES[scheme].partition(":")
    found: type[Source] = getattr(import_module(f"jumar.runtime.weights.{module}"), name)
    return found(weights, weights.source[match.end() :], base)

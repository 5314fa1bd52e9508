"""The inputs of a request, with its pictures opened and brought to the size that will be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jumar.catalog.manifest import Param
from jumar.catalog.resolution import ResolvedRequest
from jumar.runtime.families import picture
from jumar.runtime.families.picture import Picture

MULTIPLE = 8
"""Latents are at least 8 times smaller than pictures; manifests name larger steps."""


def read_pictures(request: ResolvedRequest) -> dict[str, Any]:
    """Replace each input of type image by a `Picture`, a list of paths by a list of them.

    They are brought to the size that will be drawn. Where the model has `width` and `height` and
    the request names neither, the first image decides; a mask gets the size of the image.

    Raises:
        InvalidInput: a picture that cannot be used.
    """
    inputs = dict(request.inputs)
    names = [key for key, param in request.spec.inputs.items() if param.type == "image"]
    opened = {key: _opened(inputs[key], key) for key in names if key in inputs}
    for key, pictures in opened.items():
        base = opened.get("image", pictures)[0]
        size = _size(base, request.config, request.spec.config)
        if size is None and key == "mask":
            size = base.size
        fitted = [one.fitted(*size) if size else one for one in pictures]
        inputs[key] = fitted if isinstance(inputs[key], list) else fitted[0]
    return inputs


def _opened(value: Any, key: str) -> list[Picture]:
    sources = value if isinstance(value, list) else [value]
    return [picture.read(source, name=key, mask=key == "mask") for source in sources]


def _size(
    base: Picture, config: Mapping[str, Any], params: Mapping[str, Param]
) -> tuple[int, int] | None:
    """The size to draw at: as configured, else the picture's, brought into the model's range."""
    if "width" not in params or "height" not in params:
        return None
    width: int | None = config.get("width")
    height: int | None = config.get("height")
    if width is None and height is None:
        return _within(base.size, params["width"], params["height"])
    # One side given: the other keeps the proportions.
    wide, high = base.size
    if width is None:
        width = _on_grid(wide * (height or high) / high, params["width"])
    if height is None:
        height = _on_grid(high * width / wide, params["height"])
    return width, height


def _within(size: tuple[int, int], width: Param, height: Param) -> tuple[int, int]:
    pairs = ((size[0], width), (size[1], height))
    shrink = min([1.0, *(param.maximum / side for side, param in pairs if param.maximum)])
    grow = max([1.0, *(param.minimum / side for side, param in pairs if param.minimum)])
    scale = shrink if shrink < 1 else grow
    return _on_grid(size[0] * scale, width), _on_grid(size[1] * scale, height)


def _on_grid(side: float, param: Param) -> int:
    """The largest value of the key's grid that is not over `side`, within its range."""
    start, step = int(param.minimum or 0), int(param.step or MULTIPLE)
    value = start + max(0, int(side - start + 1e-6) // step) * step
    return int(min(max(value, step), param.maximum or value))

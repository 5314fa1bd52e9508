"""From what a pipeline returns to drafts: pictures and videos, checked before they are believed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidModelOutput
from jumar.runtime.families import picture, video
from jumar.runtime.families.base import Draft
from jumar.runtime.run import Run

if TYPE_CHECKING:
    import numpy as np

FPS = 8
"""Frames per second where neither request nor manifest names them; recorded in the report."""


def drafts_of(result: Any, run: Run) -> list[Draft]:
    """One draft per picture or video.

    Raises:
        InvalidModelOutput: values that are not finite, nothing at all, or nothing but black.
    """
    if getattr(result, "audio", None) is not None:
        run.warn("The model made sound as well; it was left out of the video.")
    frames = getattr(result, "frames", None)
    if frames is not None:
        drafts = [_video(one, run) for one in frames]
    else:
        drafts = [_picture(one, run) for one in _flat(result.images)]
    if not drafts:
        raise InvalidModelOutput("The model returned nothing.")
    _tell_of_safety(result, run)
    return drafts


def _picture(value: Any, run: Run) -> Draft:
    from PIL import Image

    image = Image.fromarray(_seen(_pixels(value, "picture"), "picture"))
    return picture.draft(image, run.config.get("response_format") or "png")


def _video(values: Any, run: Run) -> Draft:
    import numpy as np

    frames = np.stack([_pixels(value, f"frame {n}") for n, value in enumerate(values)])
    padded = video.even(_seen(frames, "video"))
    if padded.shape != frames.shape:
        _, height, width, _ = padded.shape
        run.warn(f"The video was widened to {width}x{height}: its format needs even sizes.")
    if run.config.get("fps") is None:
        run.config["fps"] = FPS
    return video.draft(padded, run.config["fps"])


def _pixels(value: Any, what: str) -> np.ndarray[Any, Any]:
    """uint8 [height, width, 3 or 4] of a Pillow picture or of floats from 0 to 1."""
    import numpy as np

    array: np.ndarray[Any, Any] = np.asarray(value)
    if array.dtype != np.uint8:
        if not np.isfinite(array).all():
            raise InvalidModelOutput(
                f"The {what} is not finite, and the latents were: the VAE overflowed.",
                hint="Try dtype bf16 or fp32.",
            )
        array = (array * 255).round().astype(np.uint8)
    if array.shape[-1] == 1:
        array = array.repeat(3, axis=-1)
    return array


def _seen(pixels: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    """`pixels`, unless all are exactly black: so ends an overflow that was cast to bytes."""
    if not pixels.any():
        raise InvalidModelOutput(
            f"The {what} is black all over.", hint="Try dtype bf16 or fp32, or another seed."
        )
    return pixels


def _flat(images: Any) -> Iterator[Any]:
    """Pictures one by one: layered models return lists of them."""
    for image in images:
        if isinstance(image, list | tuple):
            yield from _flat(image)
        else:
            yield image


def _tell_of_safety(result: Any, run: Run) -> None:
    flags = getattr(result, "nsfw_content_detected", None) or []
    if any(flags):
        run.warn("The model's safety checker flagged a result and blanked it.")

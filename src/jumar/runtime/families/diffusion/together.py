"""Requests of several callers in one call of a pipeline: a row for each picture.

Row i is drawn from prompt i and generator i and sees no other, so it is what it would be alone, but
for rounding. That is tried and not believed: see `DiffusionModel.generate_together`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.runtime.families.diffusion.keys import call_arguments
from jumar.runtime.families.picture import Picture

ROWS = ("prompt", "negative_prompt", "image", "mask_image")
"""Arguments that have a value of their own for each row."""

PIPELINES = frozenset(
    {
        "FluxPipeline",
        "PixArtSigmaPipeline",
        "StableDiffusion3Pipeline",
        "StableDiffusionImg2ImgPipeline",
        "StableDiffusionInpaintPipeline",
        "StableDiffusionPipeline",
        "StableDiffusionXLImg2ImgPipeline",
        "StableDiffusionXLInpaintPipeline",
        "StableDiffusionXLPipeline",
    }
)
"""Those whose rows are independent: tests/runtime/families/test_diffusion_together.py holds each of
them to it. Others pad texts to the longest of a call, or take one text only.
"""

MIXING = ("cache", "quantization")
"""Load-time keys with which rows may see each other: what is skipped, or scaled, is decided for all
of them at once.
"""

_OWN = frozenset({"seed", "num_images_per_prompt", "response_format"})
"""Keys in which requests of one call may differ."""


def company(request: ResolvedRequest, inputs: Mapping[str, Any]) -> tuple[Hashable, int]:
    """What has to be equal in requests that are drawn in one call (None: it is drawn alone), and
    the pictures that this one asks for.
    """
    spec, config = request.spec, request.config
    count = config.get("num_images_per_prompt") or 1
    arguments = call_arguments(spec)
    drawn_on = any(isinstance(value, Picture) for value in inputs.values())
    fits = (
        spec.options["pipeline"] in PIPELINES
        and not any(config.get(key) for key in MIXING)
        and all(arguments[key] in ROWS for key in inputs)
        and all(isinstance(value, str | Picture) for value in inputs.values())
        and not (drawn_on and count > 1)  # there a pipeline repeats the picture, not its noise
    )
    if not fits:
        return None, count
    same = sorted(
        (key, repr(config[key]))
        for key, param in spec.config.items()
        if not (param.load or param.engine or key in _OWN)
    )
    return (request.task, *same, *_shapes(inputs)), count


def merged(calls: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], list[slice]]:
    """The arguments of one call for all of these, and the rows of each in what it returns. Several
    pictures of one prompt are rows like others.
    """
    generators = [_listed(call["generator"]) for call in calls]
    rows = {
        name: [call[name] for call, own in zip(calls, generators, strict=True) for _ in own]
        for name in ROWS
        if name in calls[0]
    }
    single = {"num_images_per_prompt": 1} if "num_images_per_prompt" in calls[0] else {}
    every = [one for own in generators for one in own]
    ends = [sum(map(len, generators[: at + 1])) for at in range(len(calls))]
    parts = [slice(end - len(own), end) for end, own in zip(ends, generators, strict=True)]
    return {**calls[0], **rows, **single, "generator": every}, parts


def part_of(result: Any, rows: slice) -> Any:
    """These rows of what a pipeline returned."""
    flags = getattr(result, "nsfw_content_detected", None)
    return SimpleNamespace(
        images=result.images[rows], nsfw_content_detected=flags[rows] if flags else None
    )


def shape_of(call: Mapping[str, Any], task: str, scheduler: Any, rows: int) -> Hashable:
    """What may decide whether rows are independent: the work's shape, and how it is sampled."""
    size = call["image"][0].size if "image" in call else (call.get("width"), call.get("height"))
    return task, scheduler, rows, size


def _shapes(inputs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Which inputs there are, and the sizes of pictures: an absent prompt is not an empty one."""
    return sorted(
        (key, value.size if isinstance(value, Picture) else ()) for key, value in inputs.items()
    )


def _listed(generators: Any) -> list[Any]:
    return generators if isinstance(generators, list) else [generators]

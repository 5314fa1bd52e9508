"""From a run to the arguments of the pipeline's call."""

from __future__ import annotations

import secrets
from typing import Any

from jumar.runtime.families.diffusion.keys import call_arguments
from jumar.runtime.families.picture import Picture
from jumar.runtime.run import Run

SEEDS = 2**32
"""A seed that nobody gave is drawn below this, so that it can be typed again."""


def arguments_for(run: Run) -> dict[str, Any]:
    """The arguments by name; None where the caller set nothing, so that the pipeline decides.

    What is decided here (the seed, a size taken from the picture) is recorded in `run.config`;
    what was changed in a picture is told.
    """
    _decide(run)
    given = {**run.inputs, **run.config, "seed": _generators(run)}
    named = {
        argument: _plain(given[key])
        for key, argument in call_arguments(run.request.spec).items()
        if given.get(key) is not None
    }
    return {**named, **run.request.spec.options.get("fixed", {})}


def _decide(run: Run) -> None:
    pictures = [picture for value in run.inputs.values() for picture in _pictures(value)]
    for picture in pictures:
        for note in picture.notes:
            run.warn(note)
        if picture.name == "mask" and picture.image.getextrema()[1] == 0:
            run.warn("The mask has no white: nothing will be drawn anew.")
    if run.config.get("seed") is None:
        run.config["seed"] = secrets.randbelow(SEEDS)
    if pictures and "width" in run.config and "height" in run.config:
        run.config["width"], run.config["height"] = pictures[0].size


def _pictures(value: Any) -> list[Picture]:
    listed = value if isinstance(value, list) else [value]
    return [one for one in listed if isinstance(one, Picture)]


def _plain(value: Any) -> Any:
    """Pillow's picture, or a list of them, in place of ours."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return value.image if isinstance(value, Picture) else value


def _generators(run: Run) -> Any:
    """One generator per result, on the CPU so that a seed means the same on every device.

    Result i is seeded with seed + i: it equals the single result of that seed, up to the rounding
    of batched arithmetic (at most 2 of 255 levels in fp32).
    """
    import torch

    count = run.config.get("num_images_per_prompt") or 1
    made = [torch.Generator("cpu").manual_seed(run.config["seed"] + i) for i in range(count)]
    return made if count > 1 else made[0]

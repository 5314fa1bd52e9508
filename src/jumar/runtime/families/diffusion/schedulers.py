"""Samplers by name, swapped in for one request and out again."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jumar.contracts.errors import InvalidValue


@dataclass(frozen=True)
class Sampler:
    """A scheduler class of diffusers, what it is told beyond the model's own configuration, and
    the kinds of model that it can sample (see `kind_of`)."""

    cls: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("noise",)


_FLOW = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}

SAMPLERS: dict[str, Sampler] = {
    "euler-discrete": Sampler("EulerDiscreteScheduler", kinds=("noise", "continuous")),
    "euler-ancestral": Sampler("EulerAncestralDiscreteScheduler"),
    "ddim": Sampler("DDIMScheduler"),
    "dpm-solver": Sampler("DPMSolverMultistepScheduler", {"use_karras_sigmas": False}),
    "dpm-solver-karras": Sampler("DPMSolverMultistepScheduler", {"use_karras_sigmas": True}),
    "unipc": Sampler("UniPCMultistepScheduler"),
    "flow-match-euler": Sampler("FlowMatchEulerDiscreteScheduler", kinds=("flow",)),
    "flow-match-dpm-solver": Sampler("DPMSolverMultistepScheduler", _FLOW, kinds=("flow",)),
    "flow-match-unipc": Sampler("UniPCMultistepScheduler", _FLOW, kinds=("flow",)),
}
"""A manifest adds its own under `options.schedulers: {name: {class: …, settings: {…}}}`."""


@contextmanager
def sampling_with(
    pipeline: Any, name: str | None, own: Mapping[str, Mapping[str, Any]]
) -> Iterator[None]:
    """Run the block with the scheduler `name`, made from the pipeline's own configuration.

    None leaves the pipeline's own. It is put back afterwards, whatever happens.

    Raises:
        InvalidValue: no scheduler of that name, or not for this kind of model: names those.
    """
    original = pipeline.scheduler
    if name is not None:
        pipeline.scheduler = _made(original, name, own)
    try:
        yield
    finally:
        pipeline.scheduler = original


def kind_of(scheduler: Any) -> str:
    """What a model sampled by `scheduler` was trained to see and predict.

    `flow`: a velocity (SD3, Flux, Wan); `continuous`: timesteps that are logarithms of the noise
    (SVD); `noise`: everything in the manner of DDPM.
    """
    config = scheduler.config
    flow = config.get("use_flow_sigmas") or config.get("prediction_type") == "flow_prediction"
    if flow or type(scheduler).__name__.startswith("FlowMatch"):
        return "flow"
    return "continuous" if config.get("timestep_type") == "continuous" else "noise"


def _known(own: Mapping[str, Mapping[str, Any]], kind: str) -> dict[str, Sampler]:
    """The samplers by name; a manifest's own are taken to fit its model."""
    rows = {n: Sampler(row["class"], row.get("settings", {}), (kind,)) for n, row in own.items()}
    return {**SAMPLERS, **rows}


def _made(original: Any, name: str, own: Mapping[str, Mapping[str, Any]]) -> Any:
    import diffusers

    kind = kind_of(original)
    known = _known(own, kind)
    valid = [key for key, sampler in known.items() if kind in sampler.kinds]
    if name not in valid:
        raise InvalidValue(
            f"Scheduler {name!r} does not fit: this model is of the kind {kind!r}."
            if name in known
            else f"No scheduler {name!r}.",
            hint=f"Valid: {', '.join(valid)}.",
            param="config.scheduler",
        )
    sampler = known[name]
    cls = getattr(diffusers, sampler.cls)
    return cls.from_config(original.config, **{**_shift(original, cls), **sampler.settings})


def _shift(original: Any, cls: Any) -> dict[str, float]:
    """The shift of a flow's timesteps, which scheduler classes call by two names."""
    given = original.config.get("shift", original.config.get("flow_shift"))
    accepted = inspect.signature(cls.__init__).parameters
    names = [name for name in ("shift", "flow_shift") if name in accepted]
    return {names[0]: given} if names and given is not None else {}

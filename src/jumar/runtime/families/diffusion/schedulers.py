"""Samplers by name, swapped in for one request and out again."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jumar.contracts.errors import InvalidValue, did_you_mean


@dataclass(frozen=True)
class Sampler:
    """A scheduler class of diffusers, what it is told beyond the model's own configuration, and
    whether it is for models that predict a flow (velocity) rather than noise."""

    cls: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    flow: bool = False


_PLAIN = {"use_karras_sigmas": False}
_KARRAS = {"use_karras_sigmas": True}
_FLOW = {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}

SAMPLERS: dict[str, Sampler] = {
    "euler-discrete": Sampler("EulerDiscreteScheduler", _PLAIN),
    "euler-ancestral": Sampler("EulerAncestralDiscreteScheduler"),
    "ddim": Sampler("DDIMScheduler"),
    "dpm-solver": Sampler("DPMSolverMultistepScheduler", _PLAIN),
    "dpm-solver-karras": Sampler("DPMSolverMultistepScheduler", _KARRAS),
    "unipc": Sampler("UniPCMultistepScheduler", _PLAIN),
    "flow-match-euler": Sampler("FlowMatchEulerDiscreteScheduler", flow=True),
    "flow-match-dpm-solver": Sampler("DPMSolverMultistepScheduler", _FLOW, flow=True),
    "flow-match-unipc": Sampler("UniPCMultistepScheduler", _FLOW, flow=True),
}
"""A manifest adds its own under `options.schedulers: {name: {class: …, settings: {…}}}`."""


@contextmanager
def sampling_with(
    pipeline: Any, name: str | None, own: Mapping[str, Mapping[str, Any]]
) -> Iterator[None]:
    """Run the block with the scheduler `name`, made from the pipeline's own configuration.

    None leaves the pipeline's own. It is put back afterwards, whatever happens.

    Raises:
        InvalidValue: no scheduler of that name, or not for this kind of model.
    """
    original = pipeline.scheduler
    if name is not None:
        pipeline.scheduler = _made(original, name, _known(own))
    try:
        yield
    finally:
        pipeline.scheduler = original


def _known(own: Mapping[str, Mapping[str, Any]]) -> dict[str, Sampler]:
    rows = {
        name: Sampler(row["class"], row.get("settings", {}), row.get("flow", False))
        for name, row in own.items()
    }
    return {**SAMPLERS, **rows}


def _made(original: Any, name: str, known: Mapping[str, Sampler]) -> Any:
    import diffusers

    flow = predicts_flow(original)
    valid = [key for key, sampler in known.items() if sampler.flow == flow]
    if name not in known:
        raise InvalidValue(
            f"No scheduler {name!r}.", hint=did_you_mean(name, valid), param="config.scheduler"
        )
    if name not in valid:
        kind = "a flow" if flow else "noise"
        raise InvalidValue(
            f"Scheduler {name!r} does not fit: this model predicts {kind}.",
            hint=f"Valid: {', '.join(valid)}.",
            param="config.scheduler",
        )
    sampler = known[name]
    cls = getattr(diffusers, sampler.cls)
    return cls.from_config(original.config, **_shift(original, cls), **sampler.settings)


def _shift(original: Any, cls: Any) -> dict[str, float]:
    """The shift of a flow's timesteps, which scheduler classes call by two names."""
    given = original.config.get("shift", original.config.get("flow_shift"))
    accepted = inspect.signature(cls.__init__).parameters
    names = [name for name in ("shift", "flow_shift") if name in accepted]
    return {names[0]: given} if names and given is not None else {}


def predicts_flow(scheduler: Any) -> bool:
    """Whether a model sampled by `scheduler` predicts a flow (SD3, Flux, Wan) rather than noise."""
    config = scheduler.config
    return (
        type(scheduler).__name__.startswith("FlowMatch")
        or bool(config.get("use_flow_sigmas"))
        or config.get("prediction_type") == "flow_prediction"
    )

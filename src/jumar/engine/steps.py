"""The steps between a chosen device and an answer: load, answer, let go."""

from __future__ import annotations

import gc
from dataclasses import dataclass, field
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.results import Artifact
from jumar.devices import Placement, accelerators
from jumar.runtime.artifacts import Destination
from jumar.runtime.families import Family, LoadPlan, Model
from jumar.runtime.ladder import BackendRuntime
from jumar.runtime.run import Run
from jumar.runtime.weights import ensure_all


def load_model(
    resolved: ResolvedRequest, family: Family, placement: Placement, run: Run
) -> tuple[LoadPlan, Model]:
    """Fetch what is missing and put the model on its device."""
    accelerator = accelerator_of(placement)
    run.after_stage = lambda: accelerator.empty_cache(placement.device.index)
    with run.stage("fetch"):
        weights = ensure_all(
            resolved.manifest,
            model_path=resolved.config.get("model_path"),
            converters=family.converters,
            progress=lambda p: run.step(
                p.done_bytes, p.total_bytes, kept=False, what=p.what, unit="bytes"
            ),
        )
    plan = LoadPlan(
        manifest=resolved.manifest,
        task=resolved.task,
        config=resolved.load_config,
        weights=weights,
        placement=placement,
        adapters=resolved.adapters,
        backend=_backend(resolved, placement),
    )
    with run.stage("load"):
        for told in accelerator.configure(plan.config):
            run.warn(told)
        return plan, family.load(plan, run)


@dataclass
class Made:
    """What a run has made so far: files, and a peak of device memory in MB."""

    artifacts: list[Artifact] = field(default_factory=list)
    peak_mb: float | None = None


def answer(model: Model, plan: LoadPlan, run: Run, destination: Destination, made: Made) -> None:
    """Run a request on a loaded model; `made` has all that came of it, also where it fails."""
    accelerator, index = accelerator_of(plan.placement), plan.placement.device.index
    run.after_stage = lambda: accelerator.empty_cache(index)
    accelerator.reset_peak(index)
    try:
        drafts = model.generate(run)
    finally:
        run.timeline += plan.backend.timeline()
    accelerator.synchronize(index)
    made.peak_mb = accelerator.peak_mb(index)
    with run.stage("export"):
        for artifact in destination.store(drafts, run.request.manifest.id):
            made.artifacts.append(artifact)


def let_go(placement: Placement) -> None:
    """Give the device's memory back, also what only a failed run's frames still held."""
    if placement.device.kind != "cpu":
        gc.collect()
        accelerator_of(placement).empty_cache(placement.device.index)


def accelerator_of(placement: Placement) -> Any:
    """The kind of device that this is."""
    return accelerators()[placement.device.kind]


def _backend(resolved: ResolvedRequest, placement: Placement) -> BackendRuntime:
    """How the model's modules are bound on this device, as far as `compile` lets them climb."""
    accelerator = accelerator_of(placement)
    mode, unasked = resolved.config.get("compile") or "auto", accelerator.compiles_unasked()
    climbs = mode == "on" or (mode == "auto" and unasked)
    return BackendRuntime(
        graphs=accelerator.graphs() if climbs else (),
        compile=mode,
        unasked=unasked,
        synchronize=lambda: accelerator.synchronize(placement.device.index),
    )

"""The steps between a chosen device and an answer: load, answer, let go."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.results import Artifact
from jumar.devices import Placement, accelerators
from jumar.engine.binding import bind_operators
from jumar.engine.seat import Seat
from jumar.operators.policy.files import effective
from jumar.operators.policy.taking import ties_products
from jumar.runtime.artifacts import Destination
from jumar.runtime.families import Family, LoadPlan, Model
from jumar.runtime.families.about import about
from jumar.runtime.ladder import BackendRuntime
from jumar.runtime.run import Run
from jumar.runtime.weights import ensure_all

if TYPE_CHECKING:
    import numpy as np


@dataclass
class Loaded:
    """A model on its device, and what is bound there as long as it is. `told` every report has."""

    plan: LoadPlan
    model: Model
    told: list[str]
    bound: ExitStack

    def close(self) -> None:
        """Let go of the model, the device's memory, and the operators."""
        self.model.close()
        self.plan.backend.close()
        self.bound.close()
        let_go(self.plan.placement)


def load_model(resolved: ResolvedRequest, family: Family, seat: Seat, run: Run) -> Loaded:
    """Fetch what is missing and put the model on its device."""
    placement = seat.placed()
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
    with run.stage("load"), ExitStack() as bound:
        for told in accelerator.configure(resolved.load_config):
            run.warn(told)
        of_operators = bind_operators(seat, placement, bound)
        for told in of_operators:
            run.warn(told)
        plan = LoadPlan(
            manifest=resolved.manifest,
            task=resolved.task,
            config=resolved.load_config,
            weights=weights,
            placement=placement,
            adapters=resolved.adapters,
            backend=_backend(resolved, placement, rules=_has_rules(seat, placement)),
        )
        model = family.load(plan, run)
        if facts := about(plan, model):
            run.emit("described", kept=False, **facts)
        return Loaded(plan, model, of_operators, bound.pop_all())


@dataclass
class Made:
    """What a run has made so far: files, and a peak of device memory in MB."""

    artifacts: list[Artifact] = field(default_factory=list)
    peak_mb: float | None = None


def answer(loaded: Loaded, run: Run, destination: Destination, made: Made) -> None:
    """Run a request on a loaded model; `made` has all that came of it, also where it fails."""
    accelerator, index = _begun(loaded, run)
    run.after_stage = lambda: accelerator.empty_cache(index)
    try:
        drafts = loaded.model.generate(run)
    finally:
        run.timeline += loaded.plan.backend.timeline()
    accelerator.synchronize(index)
    made.peak_mb = accelerator.peak_mb(index)
    with run.stage("export"):
        for artifact in destination.store(drafts, run.request.manifest.id):
            made.artifacts.append(artifact)


def answer_together(
    loaded: Loaded, shared: Run, runs: Sequence[Run], destinations: Sequence[Destination]
) -> Iterator[tuple[Made, Exception | None]]:
    """Run several requests in one call; for each in turn what came of it, and its own error.

    `shared` is told of the call. What is raised before the first is nobody's own.
    """
    accelerator, index = _begun(loaded, shared)
    shared.after_stage = lambda: accelerator.empty_cache(index)
    drawn = loaded.model.generate_together(shared, runs)  # type: ignore[attr-defined]
    accelerator.synchronize(index)
    peak, timeline = accelerator.peak_mb(index), loaded.plan.backend.timeline()
    for run, destination, drafts in zip(runs, destinations, drawn, strict=True):
        made, failed = Made(peak_mb=peak), None
        run.timeline += timeline
        try:
            if isinstance(drafts, Exception):
                raise drafts
            with run.stage("export"):
                for artifact in destination.store(drafts, run.request.manifest.id):
                    made.artifacts.append(artifact)
        except Exception as error:  # noqa: BLE001  (it becomes that caller's answer)
            failed = error
        yield made, failed


def encode(loaded: Loaded, run: Run, made: Made) -> np.ndarray[Any, Any]:
    """Vectors of the run's texts: float32 [n, dimensions]."""
    accelerator, index = _begun(loaded, run)
    vectors: np.ndarray[Any, Any] = loaded.model.encode(run)  # type: ignore[attr-defined]
    made.peak_mb = accelerator.peak_mb(index)
    return vectors


def let_go(placement: Placement) -> None:
    """Give the device's memory back, also what only a failed run's frames still held."""
    if placement.device.kind != "cpu":
        gc.collect()
        accelerator_of(placement).empty_cache(placement.device.index)


def _begun(loaded: Loaded, run: Run) -> tuple[Any, int]:
    """The kind of device and its number; what was told at the load is told again, and the peak of
    memory counts from here.
    """
    accelerator, index = accelerator_of(loaded.plan.placement), loaded.plan.placement.device.index
    for told in loaded.told:
        run.warn(told)
    accelerator.reset_peak(index)
    return accelerator, index


def accelerator_of(placement: Placement) -> Any:
    """The kind of device that this is."""
    return accelerators()[placement.device.kind]


def _has_rules(seat: Seat, placement: Placement) -> bool:
    """Whether somebody has said who computes operators here."""
    policy = effective(placement.device.kind)
    return bool(seat.operators.bound) or ties_products(policy, seat.fingerprint)


def _backend(resolved: ResolvedRequest, placement: Placement, *, rules: bool) -> BackendRuntime:
    """How the model's modules are bound on this device, as far as `compile` lets them climb; where
    `rules` chose who computes an operator, nobody else does.
    """
    accelerator = accelerator_of(placement)
    mode, unasked = resolved.config.get("compile") or "auto", accelerator.compiles_unasked()
    climbs = mode == "on" or (mode == "auto" and unasked)
    return BackendRuntime(
        graphs=accelerator.graphs() if climbs else (),
        compile=mode,
        unasked=unasked,
        prepacks=placement.device.kind == "cpu" and mode == "auto" and not rules,
        synchronize=lambda: accelerator.synchronize(placement.device.index),
    )

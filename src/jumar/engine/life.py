"""The life of a request: resolve, place, load, climb, prove, serve, report.

request = requests.text2audio("hibari", "Hello.")
result = generate(request, out="hello.wav")

with load("hibari") as model:                 # loaded once, asked often
    result = model.generate(prompt="Hello.")
"""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jumar import catalog
from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidRequest, InvalidValue, UnsupportedTask
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.devices import Placement, accelerators, place
from jumar.engine.record import Record
from jumar.engine.suffix import fit_to_name, suffix_of
from jumar.runtime.artifacts import Destination
from jumar.runtime.families import Family, LoadPlan, Model, family_of
from jumar.runtime.ladder import BackendRuntime
from jumar.runtime.run import Listener, Run
from jumar.runtime.weights import ensure_all

if TYPE_CHECKING:
    import numpy as np

DEFAULT_OUT = Path("jumar-out")


def validate(request: GenerateRequest) -> ResolvedRequest:
    """Everything that can be said about a request without touching weights.

    Raises:
        InvalidRequest: or one of its kinds; nothing was run, fetched or written.
        DeviceUnavailable: the device that was asked for is not here.
    """
    resolved = catalog.resolve(request)
    family = family_of(resolved.manifest)
    family.prepare(resolved)
    _place(resolved, family)
    return resolved


def generate(
    request: GenerateRequest,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
    cancel: threading.Event | None = None,
) -> GenerateResult:
    """Run one request from nothing: place, load, run, write, and let go again.

    `out` is a folder (default `jumar-out`) or a file name for the first artifact.

    Raises:
        InvalidRequest, DeviceUnavailable, DependencyMissing, OutputFailed: before anything ran.
        What goes wrong later is in the result's report (`result.metadata.error_detail`).
    """
    visit = _Visit(request, out=out, overwrite=overwrite, listener=listener, cancel=cancel)
    placement = _place(visit.resolved, visit.family)
    with Record(visit.run, placement, visit.destination) as record:
        _load_and_answer(visit, placement, record)
    _let_go(placement)
    return record.result


def load(
    model: str,
    *,
    task: str | None = None,
    backend: str = "auto",
    listener: Listener | None = None,
    cancel: threading.Event | None = None,
    **config: Any,
) -> PlacedModel:
    """Put a model on a device, ready for many requests. `config` holds load-time keys.

    Raises:
        InvalidRequest: an unknown model, key or value, or a key that is not a load-time key.
        DeviceUnavailable, DependencyMissing, WeightsUnavailable: it cannot be loaded here.
    """
    manifest = catalog.get(model)
    task = task or manifest.primary_task
    resolved = catalog.resolve_load(manifest, task, backend, config)
    family = family_of(manifest)
    placement = _place(resolved, family)
    run = Run(resolved, {}, listener=listener, cancel=cancel)
    return PlacedModel(resolved, family, *_load(resolved, family, placement, run), run)


def embed(model: str, texts: str | Sequence[str], **config: Any) -> np.ndarray[Any, Any]:
    """Vectors of `texts`: float32 [n, dimensions]. Writes nothing.

    Raises:
        JumarError: whatever went wrong, as `generate` would report it.
    """
    known = catalog.get(model).tasks
    if "embeddings" not in known:
        raise UnsupportedTask(f"{model} makes no embeddings; it does: {', '.join(known)}.")
    load_keys = {key for key, param in known["embeddings"].config.items() if param.load}
    loading = {key: config[key] for key in config if key in load_keys}
    asking = {key: config[key] for key in config if key not in load_keys}
    with load(model, task="embeddings", backend=asking.pop("backend", "auto"), **loading) as placed:
        return placed.encode(texts, **asking)


class PlacedModel:
    """A model that is loaded on a device. Close it, or use it in a `with` statement."""

    def __init__(
        self,
        resolved: ResolvedRequest,
        family: Family,
        plan: LoadPlan,
        model: Model,
        loading: Run,
    ) -> None:
        self.placement = plan.placement
        self.load_timings = loading.timings
        self._loaded = resolved
        self._family = family
        self._plan = plan
        self._model: Model | None = model
        self._lock = threading.Lock()

    @property
    def manifest(self) -> Manifest:
        """The manifest of this model."""
        return self._loaded.manifest

    @property
    def longest(self) -> int | None:
        """Where the model cuts a text off, in tokens; None where it says nothing of that."""
        longest: int | None = getattr(self._open(), "longest", None)
        return longest

    @property
    def dtype(self) -> str:
        """The number format that it computes in: `fp32` where the family has no other."""
        return str(getattr(self._open(), "dtype", "fp32"))

    def generate(
        self,
        request: GenerateRequest | None = None,
        *,
        out: str | Path | None = None,
        overwrite: bool = False,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        **keys: Any,
    ) -> GenerateResult:
        """Answer a request, or the inputs and config given as keywords.

        Raises:
            InvalidRequest: before anything ran; also where the request is for another model, or
                for load-time keys that this model was not loaded with.
        """
        request = request or self._request(keys)
        visit = _Visit(request, out=out, overwrite=overwrite, listener=listener, cancel=cancel)
        self._fits(visit.resolved)
        with Record(visit.run, self.placement, visit.destination) as record, self._lock:
            _answer(self._open(), self._plan, visit, record)
        if not record.result.ok:
            _let_go(self.placement)
        return record.result

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        **config: Any,
    ) -> np.ndarray[Any, Any]:
        """Vectors of `texts`: float32 [n, dimensions]. Writes nothing.

        Raises:
            JumarError: whatever went wrong.
        """
        listed = [texts] if isinstance(texts, str) else list(texts)
        resolved = catalog.resolve(self._request({"texts": listed, **config}))
        run = Run(resolved, self._family.prepare(resolved), listener=listener, cancel=cancel)
        with self._lock:
            vectors: np.ndarray[Any, Any] = self._open().encode(run)  # type: ignore[attr-defined]
        return vectors

    def close(self) -> None:
        """Let go of the device's memory. Further requests are refused."""
        if self._model is not None:
            self._model.close()
            self._model = None
            self._plan.backend.close()
            _let_go(self.placement)

    def __enter__(self) -> PlacedModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> Model:
        if self._model is None:
            raise InvalidRequest(f"{self.manifest.id} is closed.")
        return self._model

    def _request(self, keys: dict[str, Any]) -> GenerateRequest:
        """Sort keywords into inputs and config by what the model's tasks have."""
        task = catalog.task_for(self.manifest, keys, self._loaded.task)
        inputs = {key: keys[key] for key in keys if key in self.manifest.tasks[task].inputs}
        config = {key: keys[key] for key in keys if key not in inputs}
        kept = {k: v for k, v in self._loaded.load_config.items() if v is not None}
        return GenerateRequest(
            task=task,
            model=self.manifest.id,
            backend=self._loaded.backend,
            inputs=inputs,
            config={**kept, **config},
        )

    def _fits(self, resolved: ResolvedRequest) -> None:
        if resolved.manifest.id != self.manifest.id:
            raise InvalidRequest(
                f"This is {self.manifest.id}; the request is for {resolved.manifest.id}."
            )
        for key, value in resolved.load_config.items():
            if value != self._loaded.load_config.get(key):
                raise InvalidValue(
                    f"{key}={value!r} needs another load: this model was loaded with"
                    f" {self._loaded.load_config.get(key)!r}.",
                    hint=f"jumar.load({self.manifest.id!r}, {key}={value!r})",
                    param=f"config.{key}",
                )


class _Visit:
    """One request on its way: resolved, its inputs read, its place to write made sure of."""

    def __init__(
        self,
        request: GenerateRequest,
        *,
        out: str | Path | None,
        overwrite: bool,
        listener: Listener | None,
        cancel: threading.Event | None,
    ) -> None:
        self.resolved = catalog.resolve(fit_to_name(request, out))
        self.family = family_of(self.resolved.manifest)
        inputs = self.family.prepare(self.resolved)
        folder = out or self.resolved.config.get("output_dir") or DEFAULT_OUT
        self.destination = Destination(folder, suffix=suffix_of(self.resolved), overwrite=overwrite)
        timeout = self.resolved.config.get("timeout")
        deadline = None if timeout is None else time.monotonic() + timeout
        self.run = Run(self.resolved, inputs, listener=listener, cancel=cancel, deadline=deadline)


def _place(resolved: ResolvedRequest, family: Family) -> Placement:
    need = int(resolved.manifest.resources.memory_gb * 2**30)
    placement = place(resolved.backend, need_bytes=need)
    if reason := family.refuses(placement):
        raise InvalidValue(
            f"{resolved.manifest.id} cannot run on {placement.device.label}: {reason}.",
            param="backend",
        )
    dtype = resolved.config.get("dtype")
    if dtype is not None and dtype not in placement.dtypes:
        raise InvalidValue(
            f"{placement.device.label} ({placement.device.name}) does not compute in {dtype}"
            f" (dtype is from: {resolved.origins.get('dtype', 'caller')}).",
            hint=f"It computes in {', '.join(placement.dtypes)}.",
            param="config.dtype",
        )
    return placement


def _load(
    resolved: ResolvedRequest, family: Family, placement: Placement, run: Run
) -> tuple[LoadPlan, Model]:
    accelerator = _device_of(placement)
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


def _load_and_answer(visit: _Visit, placement: Placement, record: Record) -> None:
    plan, model = _load(visit.resolved, visit.family, placement, visit.run)
    try:
        _answer(model, plan, visit, record)
    finally:
        model.close()


def _backend(resolved: ResolvedRequest, placement: Placement) -> BackendRuntime:
    """How the model's modules are bound on this device, as far as `compile` lets them climb."""
    accelerator = _device_of(placement)
    mode, unasked = resolved.config.get("compile") or "auto", accelerator.compiles_unasked()
    climbs = mode == "on" or (mode == "auto" and unasked)
    return BackendRuntime(
        graphs=accelerator.graphs() if climbs else (),
        compile=mode,
        unasked=unasked,
        synchronize=lambda: accelerator.synchronize(placement.device.index),
    )


def _answer(model: Model, plan: LoadPlan, visit: _Visit, record: Record) -> None:
    run, accelerator = visit.run, _device_of(record.placement)
    index = record.placement.device.index
    run.after_stage = lambda: accelerator.empty_cache(index)
    accelerator.reset_peak(index)
    try:
        drafts = model.generate(run)
    finally:
        run.timeline += plan.backend.timeline()
    accelerator.synchronize(index)
    record.peak_mb = accelerator.peak_mb(index)
    with run.stage("export"):
        for artifact in visit.destination.store(drafts, visit.resolved.manifest.id):
            record.artifacts.append(artifact)


def _let_go(placement: Placement) -> None:
    """Give the device's memory back, also what only a failed run's frames still held."""
    if placement.device.kind != "cpu":
        gc.collect()
        _device_of(placement).empty_cache(placement.device.index)


def _device_of(placement: Placement) -> Any:
    return accelerators()[placement.device.kind]

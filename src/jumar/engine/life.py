"""The life of a request: resolve, place, load, climb, prove, serve, report.

request = requests.text2audio("hibari", "Hello.")
result = generate(request, out="hello.wav")

with load("hibari") as model:                 # loaded once, asked often
    result = model.generate(prompt="Hello.")

with watch("hibari") as model:                # the same in a process of its own
    result = model.generate(prompt="Hello.")
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from jumar import catalog
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidValue, UnsupportedTask, did_you_mean
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.devices import may_be_accelerator
from jumar.engine.healing import Investigate
from jumar.engine.placed import PlacedModel
from jumar.engine.record import Record
from jumar.engine.seat import seat_for
from jumar.engine.steps import answer, let_go, load_model
from jumar.engine.visit import Visit
from jumar.engine.watched import WatchedModel
from jumar.isolate import Zygote
from jumar.runtime.families import family_of
from jumar.runtime.run import Listener, Run

if TYPE_CHECKING:
    import numpy as np

Isolate = Literal["auto", "on", "off"]


def validate(request: GenerateRequest) -> ResolvedRequest:
    """Everything that can be said about a request without touching weights.

    Raises:
        InvalidRequest: or one of its kinds; nothing was run, fetched or written.
        DeviceUnavailable: the device that was asked for is not here.
    """
    resolved = catalog.resolve(request)
    family = family_of(resolved.manifest)
    family.prepare(resolved)
    seat_for(resolved, family)
    return resolved


def generate(
    request: GenerateRequest,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    listener: Listener | None = None,
    cancel: threading.Event | None = None,
    isolate: Isolate = "off",
    heartbeat: float | None = None,
    load_heartbeat: float | None = None,
    investigate: Investigate | None = None,
) -> GenerateResult:
    """Run one request from nothing: place, load, run, write, and let go again.

    `out` is a folder (default `jumar-out`) or a file name for the first artifact. `isolate` says
    whether the model gets a process of its own, so that an abort or a hang is a failed result too:
    `auto` means yes on everything but the CPU. `heartbeat`, `load_heartbeat` and `investigate` are
    those of a `WatchedModel`, and for such a process only.

    Raises:
        InvalidRequest, DeviceUnavailable, DependencyMissing, OutputFailed: before anything ran.
        What goes wrong later is in the result's report (`result.metadata.error_detail`).
    """
    visit = Visit(request, out=out, overwrite=overwrite, listener=listener, cancel=cancel)
    if isolated(isolate, visit.resolved.backend):
        with WatchedModel(
            visit.resolved,
            heartbeat=heartbeat,
            load_heartbeat=load_heartbeat,
            investigate=investigate,
        ) as watched:
            return watched.answer(visit)
    seat = seat_for(visit.resolved, visit.family)
    with Record(visit.run, visit.destination, lambda: seat) as record:
        loaded = load_model(visit.resolved, visit.family, seat, visit.run)
        try:
            answer(loaded, visit.run, visit.destination, record.made)
        finally:
            loaded.close()
    let_go(seat.placed())
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
    resolved = _resolved(model, task, backend, config)
    family = family_of(resolved.manifest)
    seat = seat_for(resolved, family)
    run = Run(resolved, {}, listener=listener, cancel=cancel)
    return PlacedModel(resolved, family, seat, load_model(resolved, family, seat, run), run)


def watch(
    model: str,
    *,
    task: str | None = None,
    backend: str = "auto",
    listener: Listener | None = None,
    cancel: threading.Event | None = None,
    heartbeat: float | None = None,
    load_heartbeat: float | None = None,
    investigate: Investigate | None = None,
    zygote: Zygote | None = None,
    **config: Any,
) -> WatchedModel:
    """As `load`, in a watched process; `WatchedModel` explains what `load` does not have.

    Raises:
        InvalidRequest, DeviceUnavailable, DependencyMissing, WeightsUnavailable: as `load`.
        RunFailed: the process died or hung while it loaded.
    """
    resolved = _resolved(model, task, backend, config)
    family_of(resolved.manifest)
    watched = WatchedModel(
        resolved,
        heartbeat=heartbeat,
        load_heartbeat=load_heartbeat,
        investigate=investigate,
        zygote=zygote,
    )
    try:
        return watched.load(listener=listener, cancel=cancel)
    except BaseException:
        watched.close()
        raise


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


def isolated(isolate: str, backend: str) -> bool:
    """Whether a model gets a process of its own.

    Raises:
        InvalidValue: neither `auto`, `on` nor `off`, or `backend` names no device.
    """
    if isolate not in get_args(Isolate):
        hint = did_you_mean(isolate, get_args(Isolate))
        raise InvalidValue(f"isolate is {isolate!r}.", hint=hint, param="isolate")
    return isolate == "on" or (isolate == "auto" and may_be_accelerator(backend))


def _resolved(
    model: str, task: str | None, backend: str, config: dict[str, Any]
) -> ResolvedRequest:
    manifest = catalog.get(model)
    return catalog.resolve_load(manifest, task or manifest.primary_task, backend, config)

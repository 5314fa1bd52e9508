"""All models that are served: loaded when somebody asks for one, let go when others need the place.

house = House("npu:0", Limits(models=2), Service(workers=2), prove=prove)
house.open("all-minilm-l6-v2")             # starts to load it; does not wait
house.answer(visit)                        # a future; loads the model where it is not there

A model is known by what decides its load, and by nothing else of a request. Several load at the
same time, and a loaded one answers meanwhile. Where there is no place for another, the one that was
asked longest ago is let go, an idle one before a busy one: it answers what waits for it, its
processes end, and only then does the other load. So memory really goes back in between. A model
that was opened by its name is the operator's, and never let go for a caller.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TypeVar

from jumar import catalog
from jumar.catalog.resolution import REMOTE, ResolvedRequest
from jumar.contracts.errors import InvalidValue, NotReady, Overloaded, UnknownModel, did_you_mean
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.devices import accelerators
from jumar.devices.select import parse
from jumar.engine.answering import Batch
from jumar.engine.healing import Investigate
from jumar.engine.plan import Plan
from jumar.engine.results import Encoding, Vectors
from jumar.engine.served import Served
from jumar.engine.service import Prove, Service
from jumar.engine.visit import Visit
from jumar.isolate import Zygote

T = TypeVar("T")

_AS_ALL = Plan()

LEAVING = 8
"""Models that may be on their way out: with more, callers change models faster than these load."""


@dataclass(frozen=True)
class Limits:
    """`models` loaded at a time; `concurrency` requests (or batches) at work, None: no bound."""

    models: int = 4
    concurrency: int | None = None


class House:
    """The models of one device. Every method may be called from any thread, and none waits for a
    model.

    Args:
        device: Where all models are put; `auto` as in a request.
        only: Ids of the models that are served; None: every model of the catalog.
        plans: Models that are served in a way of their own, by their ids.
        prove, investigate, zygote: As for `Served`. Adapters and other weights are not what goldens
            were recorded with: such models are `unverified`.
    """

    def __init__(
        self,
        device: str = "auto",
        limits: Limits | None = None,
        service: Service | None = None,
        *,
        only: Collection[str] | None = None,
        plans: Mapping[str, Plan] | None = None,
        prove: Prove | None = None,
        investigate: Investigate | None = None,
        zygote: Zygote | None = None,
    ) -> None:
        self.device = device
        self.limits = limits = limits or Limits()
        self.service = service or Service()
        self.only = None if only is None else frozenset(catalog.get(name).id for name in only)
        self._plans = plans or {}
        self._prove = prove
        self._investigate = investigate
        self._zygote = zygote
        bound = limits.concurrency
        self._room = nullcontext() if bound is None else threading.BoundedSemaphore(bound)
        self._open: OrderedDict[str, Served] = OrderedDict()  # asked longest ago first
        self._named: list[Served] = []  # those of them that are never let go
        self._leaving: list[Served] = []
        self._closed = False
        self._lock = threading.Lock()
        self.computed: Callable[[str, Batch], None] = lambda model, batch: None
        """Told of each batch, by the thread that answers it."""

    def models(self) -> list[Served]:
        """Those that are loaded, or about to be."""
        with self._lock:
            return list(self._open.values())

    def named(self) -> list[Served]:
        """Those that were opened by their name."""
        with self._lock:
            return list(self._named)

    def by_id(self) -> dict[str, Served]:
        """One of each model: as it was opened by its name, else as it was asked for last."""
        with self._lock:
            every = [*self._open.values(), *self._named]
        return {one.loaded.manifest.id: one for one in every}

    def admit(self, request: GenerateRequest) -> GenerateRequest:
        """The request as it is run here: on the device of this house.

        Raises:
            UnknownModel: there is none, or it is not served here.
            InvalidValue: the caller asks for another device.
        """
        manifest = catalog.get(request.model)
        if self.only is not None and manifest.id not in self.only:
            raise UnknownModel(
                f"{manifest.id} is not served here.",
                hint=did_you_mean(manifest.id, self.only),
                param="model",
            )
        if REMOTE in manifest.backends:
            return request
        device = self.plan(manifest.id).device or self.device
        if not _is_here(request.backend, device):
            raise InvalidValue(
                f"{manifest.id} runs on {device} here, not on {request.backend}.",
                hint="Leave backend out.",
                param="backend",
            )
        return request.model_copy(update={"backend": device})

    def plan(self, model: str) -> Plan:
        """How a model is served where that differs from the others."""
        return self._plans.get(model, _AS_ALL)

    def open(self, name: str) -> Served:
        """Load a model as it is loaded for a request without load-time keys, and keep it. Does not
        wait.

        Raises:
            UnknownModel: there is none, or it is not served here.
            InvalidValue: there is no place beside those that were opened before.
        """
        manifest = catalog.get(name)
        request = GenerateRequest(task=manifest.primary_task, model=manifest.id)  # type: ignore[arg-type]
        backend = self.admit(request).backend
        config = dict(self.plan(manifest.id).config)
        loaded = catalog.resolve_load(manifest, manifest.primary_task, backend, config)
        with self._lock:
            served = self._at(loaded)
            if served not in self._named:
                self._named.append(served)
            return served

    def answer(self, visit: Visit) -> Future[GenerateResult]:
        """Let a request wait for its answer.

        Raises:
            Overloaded, DeadlineExceeded, NotReady: at once.
            InvalidValue: it needs a load for which there is no place.
        """
        return self._with(visit.resolved, lambda served: served.answer(visit))

    def encode(
        self, request: ResolvedRequest, encoding: Encoding, *, deadline: float | None = None
    ) -> Future[Vectors]:
        """Let texts wait for their vectors. Raises as `answer`."""
        return self._with(request, lambda served: served.encode(encoding, deadline=deadline))

    def finish(self) -> None:
        """Refuse what comes and what waits; what runs may end. Does not wait: `close` does."""
        with self._lock:
            self._closed = True
            for served in [*self._open.values(), *self._leaving]:
                served.stop()

    def close(self, grace: float | None = None) -> None:
        """`finish`, and wait until every process has ended; after `grace` seconds, end them."""
        self.finish()
        until = None if grace is None else time.monotonic() + grace
        every = [*self._open.values(), *self._leaving]
        for served in every:
            served.join(until)
        if self._zygote is not None and not all(served.over for served in every):
            self._zygote.close()
        for served in every:
            served.join(time.monotonic() if served.service.in_process else None)

    def _with(self, request: ResolvedRequest, ask: Callable[[Served], Future[T]]) -> Future[T]:
        with self._lock:  # nobody lets the model go between finding and asking it
            return ask(self._at(request))

    def _at(self, request: ResolvedRequest) -> Served:
        if self._closed:
            raise NotReady("The server is stopping.")
        key = f"{request.backend} {request.cache_key()}"
        served = self._open.get(key)
        if served is None:
            served = self._open[key] = self._served(request)
        self._open.move_to_end(key)
        return served

    def _served(self, request: ResolvedRequest) -> Served:
        while len(self._open) >= self.limits.models:
            key = self._least_needed()
            if key is None:
                raise self._no_place(request)
            self._leaving = [one for one in self._leaving if not one.over]
            if len(self._leaving) >= LEAVING:
                raise Overloaded(
                    f"{LEAVING} models are on their way out already.",
                    hint="Serve more models at a time, or ask for fewer in turn.",
                )
            self._let_go(key)
        before = list(self._leaving)
        pristine = not request.adapters and request.load_config.get("model_path") is None
        return Served(
            replace(request, inputs={}, origins={}),
            self.plan(request.manifest.id).service or self.service,
            prove=self._prove if pristine else None,
            investigate=self._investigate,
            zygote=self._zygote,
            room=self._room,
            before=lambda: _all_gone(before),
            make_room=self._make_room,
            computed=lambda batch: self.computed(request.manifest.id, batch),
        )

    def _least_needed(self) -> str | None:
        """Failed for good before idle before busy, and among these asked longest ago."""
        callers = (key for key, one in self._open.items() if one not in self._named)

        def needed(key: str) -> tuple[bool, bool]:
            served = self._open[key]
            return not served.over, served.pending > 0

        return min(callers, key=needed, default=None)

    def _no_place(self, request: ResolvedRequest) -> InvalidValue:
        """Why a request finds no place, by what keeps the operator's load from answering it."""
        own = next((o.loaded for o in self._named if o.loaded.manifest is request.manifest), None)
        wanted = request.load_config.items()
        keys = [] if own is None else [k for k, v in wanted if v != own.load_config.get(k)]
        what = f"config.{keys[0]}" if keys else "adapters" if request.adapters else "model"
        return InvalidValue(
            f"{request.manifest.id} needs a load of its own for this, and every place here"
            f" ({self.limits.models}) is that of a model which was named to the server.",
            hint=None if what == "model" else f"Leave {what.removeprefix('config.')} out.",
            param=what,
        )

    def _let_go(self, key: str) -> Served:
        served = self._open.pop(key)
        served.finish()
        self._leaving.append(served)
        return served

    def _make_room(self, who: Served) -> bool:
        """Let the idle one of callers' models go that was asked longest ago, and wait for that."""
        with self._lock:
            idle = (
                key
                for key, one in self._open.items()
                if one is not who
                and one not in self._named
                and not one.pending
                and one.loaded.backend == who.loaded.backend
            )
            key = next(idle, None)
            if key is None:
                return False
            gone = self._let_go(key)
        gone.join()
        return True


def _is_here(backend: str, device: str) -> bool:
    """Whether a caller's word for a device means this one: `auto`, its kind, or itself."""
    if backend == "auto":
        return True
    kind, index = parse(backend, accelerators())
    own, _ = parse(device, accelerators())
    return kind == "auto" or (kind == own and (index is None or backend == device))


def _all_gone(leaving: list[Served]) -> None:
    for one in leaving:
        one.join()

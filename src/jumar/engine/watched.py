"""A model in a watched process: what aborts or hangs there is a report here.

with watch("all-minilm-l6-v2", backend="npu:0", heartbeat=60) as model:
    result = model.generate(texts=["a"])     # a crash is a failed result; the next call loads anew

The child does the work: it opens the device, loads, answers, writes the files. This side keeps the
record: it hears each event as it happens, so that a report can be written whatever becomes of the
child. It never touches a device itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from jumar import catalog
from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidRequest, JumarError, RunFailed
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.devices import Placement
from jumar.engine.endings import error_of
from jumar.engine.healing import Failed, Investigate, found_guilty, may_be_an_operators
from jumar.engine.record import Owed, Record
from jumar.engine.seat import Seat
from jumar.engine.together import Ended, Party, heard_together
from jumar.engine.visit import Terms, Visit
from jumar.engine.worker import SEATING, Order, Part, heard, worker
from jumar.isolate import Child, Died, Hung, Raised, Zygote
from jumar.isolate.child import TICK_S
from jumar.runtime.artifacts import Destination
from jumar.runtime.families import family_of
from jumar.runtime.run import Listener, Run

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

LOADING_S = 1800.0
"""Silence that is a hang while a model is loaded: large weights come without a word."""

ANSWERING_S = 600.0
"""Silence that is a hang while it answers: a first step may compile for minutes."""

_PATIENCE_S = {"place": 0.0, "load": 0.5, "generate": 5.0, "generate_together": 5.0, "encode": 5.0}
"""Time to stop by itself, at its next step, for a worker that is told to or has no time left."""


class WatchedModel:
    """A model in a child process. Close it, or use it in a `with` statement.

    Args:
        heartbeat: Seconds without a sign of progress that are a hang, else `ANSWERING_S`.
        load_heartbeat: The same while the model is loaded, else `LOADING_S`.
        investigate: Called after a failure that may be an operator's, with no child left. What it
            finds guilty goes into the store of evidence, and so into quarantine, and the request
            is run again, once.
        worth_it: Whether a failure is to be looked into, asked before that.
        zygote: Where children are forked from. One with imports done starts them sooner; without
            any, each child imports for itself.
        renews: Whether a child that is lost, or whose device does not answer any more, is replaced
            by the next request. Without it that request fails: for an owner who has to prove each
            child before it answers.

    Requests of several threads take turns.
    """

    def __init__(
        self,
        loaded: ResolvedRequest,
        *,
        heartbeat: float | None = None,
        load_heartbeat: float | None = None,
        investigate: Investigate | None = None,
        worth_it: Callable[[JumarError, Run], bool] = lambda error, run: True,
        zygote: Zygote | None = None,
        renews: bool = True,
    ) -> None:
        self.load_timings: dict[str, float] = {}
        self.peak_mb: float | None = None
        """The most memory that the last texts took, as a report has it for other runs."""
        self._terms = Terms(loaded)
        self._loading_s = load_heartbeat or LOADING_S
        self._answering_s = heartbeat or ANSWERING_S
        self.healed = False
        """Whether an operator was found guilty since this was made."""
        self._investigate = investigate
        self._worth_it = worth_it
        self._renews = renews
        self._own = None if zygote else Zygote()
        self._zygote = zygote or self._own
        self._child: Child | None = None
        self._seat = Seat()
        self._lock = threading.Lock()

    @property
    def manifest(self) -> Manifest:
        """The manifest of this model."""
        return self._terms.manifest

    @property
    def placement(self) -> Placement:
        """The device of the present child, or of the last one.

        Raises:
            InvalidRequest: No child has had a device yet.
        """
        if self._seat.placement is None:
            raise InvalidRequest(f"{self.manifest.id} has no device yet: it is not loaded.")
        return self._seat.placement

    @property
    def dtype(self) -> str:
        """The number format that it computes in: `fp32` where the family has no other."""
        return self._seat.dtype

    @property
    def fingerprint(self) -> dict[str, str]:
        """What its answers depend on: device class, chip, driver, library versions."""
        return self._seat.fingerprint

    @property
    def identity(self) -> Hashable:
        """All that its answers depend on: another worker of the same gives the same answers."""
        return (self._terms.loaded.cache_key(), self._seat.identity)

    @property
    def alive(self) -> bool:
        """Whether a child has the model loaded."""
        return self._child is not None and self._child.alive

    @property
    def lost(self) -> bool:
        """Whether the last call found that none has. Asks nobody, as `alive` does."""
        return self._child is None

    def load(
        self, *, listener: Listener | None = None, cancel: threading.Event | None = None
    ) -> WatchedModel:
        """Load now and not at the first request.

        Raises:
            JumarError: as `jumar.load`; RunFailed also where the child died or hung.
        """
        run = Run(self._terms.loaded, {}, listener=listener, cancel=cancel)
        with self._lock:
            self._loaded(run)
        self.load_timings = run.timings or self.load_timings  # those of a load that was needed
        return self

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
            DeviceUnavailable, DependencyMissing: a child that had to be new has no device.
        """
        request = request or self._terms.request(keys)
        visit = Visit(request, out=out, overwrite=overwrite, listener=listener, cancel=cancel)
        self._terms.fit(visit.resolved)
        return self.answer(visit)

    def answer(self, visit: Visit, *, owed: Owed | None = None) -> GenerateResult:
        """Answer a request that has been looked at; `owed` as for a `Record`, and what others left
        there is written while the child is at work.
        """
        run, destination = visit.run, visit.destination

        def generated() -> None:
            part = self._asked(self._loaded(run), "generate", run, destination, owed)
            record.made = part.made
            self._checked(part)

        with Record(run, destination, lambda: self._seat, owed) as record, self._lock:
            self._healed(run, generated)
        return record.result

    def answer_together(
        self, visits: Sequence[Visit], ended: Ended, *, owed: Owed | None = None
    ) -> tuple[list[int], JumarError | None]:
        """Answer requests of equal `company` in one call; `ended` is told of each at its end.

        Gives the numbers of those who have no result of it, and why: the call itself failed.
        """
        records = [Record(one.run, one.destination, lambda: self._seat, owed) for one in visits]
        party = Party(visits, records, ended)

        def generated() -> None:
            child = self._loaded(party)
            self._checked(
                self._asked(child, "generate_together", party, owed=owed, hears=heard_together)
            )

        try:
            with self._lock:
                self._healed(party, generated)
        except JumarError as error:
            for one in visits if not self.alive else ():
                one.destination.sweep()
            return party.left_over, error
        return party.left_over, None

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
        resolved = catalog.resolve(self._terms.request({"texts": listed, **config}))
        inputs = family_of(self.manifest).prepare(resolved)
        run = Run(resolved, inputs, listener=listener, cancel=cancel)

        def encoded() -> np.ndarray[Any, Any]:
            part = self._asked(self._loaded(run), "encode", run)
            vectors: np.ndarray[Any, Any] = self._checked(part)
            self.peak_mb = part.made.peak_mb
            return vectors

        with self._lock:
            return self._healed(run, encoded)

    def close(self) -> None:
        """End the child, and so all that it has on the device. Further requests are refused."""
        self._zygote = None
        self._end()
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> WatchedModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _healed(self, run: Run, work: Callable[[], T]) -> T:
        """Do the work; where an operator that is found guilty stops it, once more without that.

        Nothing has been delivered as long as files are not written, and answers have no other
        effect: then running again is safe.
        """
        try:
            return work()
        except RunFailed as error:
            placement, at = self._seat.placement, run.at
            if self._investigate is None or placement is None or placement.device.kind == "cpu":
                raise
            if at == "export" or not may_be_an_operators(error) or not self._worth_it(error, run):
                raise
            self._end()
            failed = Failed(
                error,
                placement,
                self._seat.fingerprint,
                self._loading_s,
                self._answering_s,
                run.cancel,
            )
            self.healed = found_guilty(self._investigate, failed, run)
            if not self.healed or not self._renews:
                raise
        return work()

    def _loaded(self, run: Run) -> Child:
        """A child that has the model; a new one where the last is lost."""
        if self._child is not None:
            if not self._renews or self.alive:  # a lost child answers the call that it is lost
                return self._child
            run.warn("The worker had ended since the last request; the model was loaded anew.")
        if self._zygote is None:
            raise InvalidRequest(f"{self.manifest.id} is closed.")
        if not self._renews and self._seat.worker is not None:
            raise RunFailed("The worker was lost before.")
        child = self._child = self._zygote.spawn(worker, echo=True)
        self._seat = Seat(worker=str(child.pid))
        try:
            for what in ("place", "load"):
                self._checked(self._asked(child, what, run))
        except BaseException:
            self._end()
            raise
        return child

    def _asked(
        self,
        child: Child,
        what: str,
        run: Run,
        destination: Destination | None = None,
        owed: Owed | None = None,
        hears: Callable[[Any, Any], None] = heard,
    ) -> Part:
        """What the child makes of an order. A child that is lost leaves an error and no litter."""
        run.check()  # a caller who has stopped already is not answered, however fast it would be
        patience = _PATIENCE_S[what]
        if what == "place":
            request = replace(run.request, adapters=self._terms.loaded.adapters)
            order = Order.first(request, run.left)
        else:
            order = Order.like_it(what, run, destination)
        outcome = child.call(
            order,
            deadline=None if order.left is None else max(order.left, 0) + patience + TICK_S,
            heartbeat=self._loading_s if what in SEATING else self._answering_s,
            on_told=lambda told: hears(told, run),
            meanwhile=(owed or Owed()).settle,
            stop=run.cancel,
            patience=patience,
        )
        if isinstance(outcome, (Died, Hung)):
            self._end()
            if destination is not None:
                destination.sweep()
            raise error_of(outcome, run)
        if isinstance(outcome, Raised):  # what the answer was made of cannot be sent
            raise outcome.failure.error()
        part: Part = outcome.value
        part.add_to(run)
        if part.seat is not None:
            self._seat = replace(part.seat, worker=str(child.pid))
        return part

    def _checked(self, part: Part) -> Any:
        """The value of a part that did not fail."""
        if part.broken:
            self._end()
        if part.failure is not None:
            raise part.failure.error()
        return part.value

    def _end(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None

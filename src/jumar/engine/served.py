"""A model that is served: a queue, workers that may die, and a state that says why.

served = Served(resolved, Service(workers=2), prove=prove)   # starts to load at once
served.states.wait()                                         # ready, or failed with the reason
future = served.answer(visit)                                # Overloaded at once where it is full
future.result()                                              # a GenerateResult, also a failed one
served.close()

Each worker is a thread here and a process of its own (`WatchedModel`). One that is lost is
replaced, after a pause where it had answered nothing, and has to prove itself again before it
answers. What it was at work on is run once more by another, since an answer that was not delivered
has had no effect. What is lost a second time in the same place is looked into (`Suspicion`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import (
    DependencyMissing,
    DeviceUnavailable,
    InsufficientMemory,
    InvalidInput,
    InvalidModelOutput,
    InvalidRequest,
    JumarError,
    NotReady,
    ParityFailed,
    RunFailed,
    WeightsUnavailable,
)
from jumar.contracts.results import GenerateResult, Parity, StageEventRecord
from jumar.engine.answering import Computed, answer, begins, fail
from jumar.engine.healing import Investigate, Suspicion, from_outside
from jumar.engine.inline import InlineModel
from jumar.engine.queue import Queue, Work
from jumar.engine.record import Owed
from jumar.engine.results import Encoding, Look, Results, Vectors
from jumar.engine.service import Model, Prove, Service
from jumar.engine.states import States
from jumar.engine.visit import Terms, Visit
from jumar.engine.watched import WatchedModel
from jumar.isolate import Zygote

LOOK_S = 1.0
"""Between two looks at an idle worker, in seconds."""

TRIES = 3
"""Loads that fail one after the other before callers who wait are told."""

OUTSIDE = 0.25
"""What a load counts whose process was killed from outside: that says nothing of the model."""

LONGEST_PAUSE_S = 60.0
MOST_TOKENS = 1 << 20
"""A budget above this is none: what `batch_tokens` of the vocabulary may be."""

_SMOOTHING = 0.2
"""Weight of the newest measurement in the expected time of a request."""

_TELLING = (InvalidRequest, DeviceUnavailable, DependencyMissing, WeightsUnavailable)
"""Failures to load that say by themselves what a caller has to know."""


class Served:
    """One model on one device, for many callers. Every method may be called from any thread.

    Args:
        loaded: What is loaded.
        prove: What it has to pass before it is ready.
        investigate: As for `WatchedModel`.
        zygote: Where its workers are forked from.
        room: Entered around each batch; a semaphore bounds what several models do at once.
        before: Called by each worker before it loads: waits until there is room for it.
        make_room: Called where loading ran out of memory; True: something was let go, try again.
        computed: Told of each batch.
    """

    def __init__(
        self,
        loaded: ResolvedRequest,
        service: Service | None = None,
        *,
        prove: Prove | None = None,
        investigate: Investigate | None = None,
        zygote: Zygote | None = None,
        room: AbstractContextManager[Any] | None = None,
        before: Callable[[], None] = lambda: None,
        make_room: Callable[[Served], bool] = lambda served: False,
        computed: Computed = lambda batch: None,
    ) -> None:
        self.loaded = loaded
        self.service = service = service or Service()
        self.states = States(service.workers)
        self.parity = Parity(status="pending")
        self.device: str | None = None  # this and its class: known once a worker has loaded it
        self.device_class: str | None = None
        self.about: dict[str, Any] = {}  # what it says of itself, once a worker has loaded it
        self.terms = Terms(loaded)
        self._prove = prove
        self._investigate = investigate
        self._suspicion = Suspicion()
        self._zygote = zygote
        self._room = room or nullcontext()
        self._before = before
        self._make_room = make_room
        self._computed = computed
        self._queue = Queue(service.queue, service.batching_of(loaded.spec))
        self._results = Results(service.results)
        self._bounds = (
            {"batch_tokens": service.batching.budget}
            if "batch_tokens" in loaded.spec.config and service.batching.budget <= MOST_TOKENS
            else {}
        )
        self._seconds = 0.0  # expected, per unit of size
        self._pending = 0
        self._counting = threading.Lock()
        self._error: JumarError | None = None
        self._closing = threading.Event()
        self._unwanted = threading.Event()  # a load that nobody waits for
        self._threads = [
            threading.Thread(
                target=self._work, args=(n,), name=f"{loaded.manifest.id}-{n}", daemon=True
            )
            for n in range(service.workers)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def waiting(self) -> int:
        """Requests in the queue."""
        return len(self._queue)

    @property
    def pending(self) -> int:
        """Requests that have no answer yet."""
        return self._pending

    @property
    def over(self) -> bool:
        """Whether it will never answer again."""
        return not any(thread.is_alive() for thread in self._threads)

    def answer(self, visit: Visit) -> Future[GenerateResult]:
        """Let a request wait for its answer. `Future.cancel` takes it out of the queue.

        Raises:
            Overloaded, DeadlineExceeded, NotReady: at once.
            InvalidRequest: it is for another model, or needs another load.
        """
        self.terms.fit(visit.resolved)
        key, size = (None, 1) if self.service.in_process else visit.company
        return self._put(visit, deadline=visit.deadline, together=key, size=size)

    def encode(self, encoding: Encoding, *, deadline: float | None = None) -> Future[Vectors]:
        """Let texts wait for what is read of them, in a batch with others'; not those whose
        results are known.
        """
        self._may_wait()
        look = self._results.begin(encoding)
        found = _Looked(look, self)
        if not look.missing:
            found.set_result(None)
            return found
        wanted = encoding.only(look.missing) if look.known else encoding
        wanted = replace(wanted, config={**self._bounds, **wanted.config})
        key = (*sorted(wanted.config.items()), *wanted.beside)
        return self._put(
            wanted, deadline=deadline, together=(key,), size=wanted.tokens, future=found
        )

    def finish(self) -> None:
        """Refuse what comes, answer what waits, and end the workers. Does not wait: `join` does."""
        self._queue.finish()
        self._closing.set()
        if not self._pending:
            self._unwanted.set()

    def join(self, until: float | None = None) -> None:
        """Wait until all its processes have ended, or until this `time.monotonic`."""
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - time.monotonic()))

    def stop(self) -> None:
        """Refuse what waits as well; running work may end. Does not wait either."""
        self._queue.close()
        self._closing.set()
        self._unwanted.set()

    def close(self) -> None:
        """`stop`, and wait."""
        self.stop()
        self.join()

    def _put(self, what: Any, *, future: Future[Any] | None = None, **more: Any) -> Future[Any]:
        self._may_wait()
        future = future or Future()
        seconds = self._seconds * more.get("size", 1)
        work = Work((what, future), seconds, refuse=lambda error: fail(future, error), **more)

        def over(done: Future[Any]) -> None:
            self._count(-1)
            if done.cancelled():
                self._queue.cancel(work)

        self._count(1)
        future.add_done_callback(over)
        try:
            self._queue.put(work)
        except JumarError:
            future.cancel()
            raise
        return future

    def _count(self, more: int) -> None:
        with self._counting:
            self._pending += more

    def _may_wait(self) -> None:
        state = self.states.state()
        if state.name == "failed" and self._error is not None:
            raise self._error.with_traceback(None)  # one object, raised many times
        if state.name in ("failed", "closed"):
            raise NotReady(f"{self.loaded.manifest.id} is {state.name}: {state.reason}")

    # ---- a worker --------------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        """Load, prove, answer; and from the start again where the process was lost."""
        self._before()
        pauses, failures = _pauses(), 0.0
        while not self._queue.over:
            model = self._model()
            try:
                self._ready(number, model)
            except JumarError as error:
                model.close()
                failures += OUTSIDE if from_outside(error) else 1.0
                if self._is_final(number, error, again=failures >= TRIES):
                    return
            else:
                failures = 0.0
                if self._serve(model):
                    pauses = _pauses()
                model.close()
                if not self._queue.over:
                    self.states.tell(number, "loading", "its process was lost")
            self._closing.wait(next(pauses))
        self.states.tell(number, "closed", "it was closed")

    def _model(self) -> Model:
        if self.service.in_process:
            return InlineModel(self.loaded)
        return WatchedModel(
            self.loaded,
            heartbeat=self.service.heartbeat,
            load_heartbeat=self.service.load_heartbeat,
            investigate=self._investigate,
            worth_it=self._suspicion.second,
            zygote=self._zygote,
            renews=False,
        )

    def _ready(self, number: int, model: Model) -> None:
        self.states.tell(number, "loading")
        model.load(listener=self._told, cancel=self._unwanted)
        self.device = model.placement.device.label
        self.device_class = model.fingerprint.get("device_class")
        self.states.tell(number, "warming", "its golden answers are asked")
        self._results.clear()
        self.parity = self.service.judged(self._proven(model))
        self.states.tell(number, "ready", self.parity.status)

    def _told(self, event: StageEventRecord) -> None:
        if event.event == "described":
            self.about = event.data

    def _proven(self, model: Model) -> Parity:
        """What its goldens say. One that is lost meanwhile answers nothing, and nothing wrong.

        Raises:
            ParityFailed: an answer is wrong.
            RunFailed: its process was lost.
        """
        try:
            return self._prove(model) if self._prove else Parity(status="unverified")
        except ParityFailed as error:
            if model.alive:
                raise
            raise RunFailed("Its process was lost while its golden answers were asked.") from error

    def _is_final(self, number: int, error: JumarError, *, again: bool) -> bool:
        """Tell of a failure to get ready; True where this worker will not try again.

        With the last worker, what waits is refused: at once where the failure says why no other
        load would do, else after `TRIES`.
        """
        if isinstance(error, InsufficientMemory) and self._make_room(self):
            self.states.tell(number, "loading", "others were let go for it")
            return False
        if isinstance(error, ParityFailed) and self.parity.status == "pending":
            self.parity = Parity(status="failed")
        self.states.tell(number, "failed", str(error))
        final = _would_end_the_same(error) or self._closing.is_set()
        if all(state.name == "failed" for state in self.states.each()):
            told = NotReady(f"{self.loaded.manifest.id} failed: {error}", hint=error.hint)
            self._error = error if isinstance(error, _TELLING) else told
            if final:
                self._queue.close(self._error)
            elif again or isinstance(error, _TELLING):
                self._queue.refuse(self._error)
        return final

    def _serve(self, model: Model) -> bool:
        """Answer until the model is lost, or there will be no more work; whether it answered.

        An idle one is looked at now and then: its process may be killed from outside.
        """
        answered, owed = False, Owed()
        while not self._queue.over:
            batch = self._queue.take(LOOK_S, idle=owed.settle if owed else None)
            with self._room if batch else nullcontext():
                if begun := [work for work in batch if begins(work)]:
                    self._answer(model, begun, owed)
            if model.lost if batch else not model.alive:
                break
            answered = answered or bool(batch)
        owed.settle()
        return answered

    def _answer(self, model: Model, batch: list[Work], owed: Owed) -> None:
        begun = time.monotonic()
        apart = answer(model, batch, self.parity, self._once_more, owed, self._computed)
        if isinstance(apart, InsufficientMemory):
            self._queue.bound(sum(work.size for work in batch) // 2)
        spent = (time.monotonic() - begun) / sum(work.size for work in batch)
        old = self._seconds or spent
        self._seconds = old + _SMOOTHING * (spent - old)

    def _once_more(self, work: Work, healed: bool) -> bool:
        """Whether work of a lost process waits again: once, and once more without the operator that
        was found guilty of that.
        """
        if work.tries > int(healed):
            return False
        work.tries += 1
        work.together = None  # it may be what the worker was lost at
        self._queue.again([work])
        return True


class _Looked(Future[Vectors]):
    """What is read of texts: what was computed, beside what was known."""

    def __init__(self, look: Look, served: Served) -> None:
        super().__init__()
        self._look = look
        self._served = served

    def set_result(self, result: Vectors | None) -> None:
        """Those of the missing texts have been computed."""
        try:
            found = self._look.completed(result)
            super().set_result(replace(found, about=self._served.about))
        except ValueError as error:
            told = InvalidModelOutput("The model gave no value for each text.")
            told.__cause__ = error
            self.set_exception(told)

    def set_exception(self, exception: BaseException | None) -> None:
        """It is told by the places that the caller knows."""
        told = self._look.of_all(exception) if isinstance(exception, InvalidInput) else exception
        super().set_exception(told)


def _would_end_the_same(error: JumarError) -> bool:
    """Whether loading again would end the same way: wrong answers, a wrong request."""
    return isinstance(error, ParityFailed) or 400 <= error.http_status < 500


def _pauses() -> Iterator[float]:
    """Seconds before each new start: 0, 1, 2, 4 … 60."""
    yield 0.0
    pause = 1.0
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)

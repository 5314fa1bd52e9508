"""A model that is served: a queue, workers that may die, and a state that says why.

served = Served(resolved, Service(workers=2), prove=prove)   # starts to load at once
served.states.wait()                                         # ready, or failed with the reason
future = served.answer(visit)                                # Overloaded at once where it is full
future.result()                                              # a GenerateResult, also a failed one
served.close()

Each worker is a thread here and a process of its own (`WatchedModel`). One that is lost is replaced
after a pause, and has to prove itself again before it answers. What it was at work on is run once
more by another, since an answer that was not delivered has had no effect.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import JumarError, NotReady, ParityFailed
from jumar.contracts.results import GenerateResult, Parity
from jumar.engine.healing import Investigate
from jumar.engine.queue import Batching, Queue, Work
from jumar.engine.states import States
from jumar.engine.visit import Terms, Visit
from jumar.engine.watched import WatchedModel
from jumar.isolate import Zygote

if TYPE_CHECKING:
    pass

Prove = Callable[[WatchedModel], Parity]
"""Asks a loaded model its golden requests; raises ParityFailed, or gives what it found."""

LONGEST_PAUSE_S = 60.0
_SMOOTHING = 0.2
"""Weight of the newest measurement in the expected time of a request."""


@dataclass(frozen=True)
class Service:
    """How a model is served.

    Args:
        workers: Processes, each with the model.
        queue: Requests that may wait; one more is refused.
        batching: How much of equal config is answered together (encoders).
        require_verified: A model without goldens of this kind of device is not ready either.
        heartbeat, load_heartbeat: Silences that are a hang, in seconds; None: a worker's own.
    """

    workers: int = 1
    queue: int = 256
    batching: Batching = field(default_factory=Batching)
    require_verified: bool = False
    heartbeat: float | None = None
    load_heartbeat: float | None = None


@dataclass
class Encoding:
    """Texts to be encoded, with the config of the request."""

    texts: list[str]
    config: Mapping[str, Any] = field(default_factory=dict)


class Served:
    """One model on one device, for many callers. Every method may be called from any thread."""

    def __init__(
        self,
        loaded: ResolvedRequest,
        service: Service | None = None,
        *,
        prove: Prove | None = None,
        investigate: Investigate | None = None,
        zygote: Zygote | None = None,
    ) -> None:
        self.loaded = loaded
        self.service = service = service or Service()
        self.states = States(service.workers)
        self.parity = Parity(status="pending")
        self.terms = Terms(loaded)
        self._prove = prove
        self._investigate = investigate
        self._zygote = zygote
        self._queue = Queue(service.queue, service.batching)
        self._seconds = 0.0  # expected, per unit of size
        self._closing = threading.Event()
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

    def answer(self, visit: Visit) -> Future[GenerateResult]:
        """Let a request wait for its answer. `Future.cancel` takes it out of the queue.

        Raises:
            Overloaded, DeadlineExceeded, NotReady: at once.
            InvalidRequest: it is for another model, or needs another load.
        """
        self.terms.fit(visit.resolved)
        return self._put(visit, deadline=visit.deadline)

    def encode(self, encoding: Encoding, *, deadline: float | None = None) -> Future[Any]:
        """Let texts wait for their vectors, float32 [n, dimensions]; in a batch with others'."""
        key = tuple(sorted(encoding.config.items()))
        return self._put(encoding, deadline=deadline, together=(key,), size=len(encoding.texts))

    def close(self) -> None:
        """Refuse what waits, let running work end, and end the workers."""
        self._closing.set()
        self._queue.close()
        for thread in self._threads:
            thread.join()

    def _put(self, what: Any, **more: Any) -> Future[Any]:
        self._may_wait()
        future: Future[Any] = Future()
        seconds = self._seconds * more.get("size", 1)
        work = Work((what, future), seconds, refuse=lambda error: _fail(future, error), **more)
        self._queue.put(work)
        future.add_done_callback(lambda done: done.cancelled() and self._queue.cancel(work))
        return future

    def _may_wait(self) -> None:
        state = self.states.state()
        if state.name in ("failed", "closed"):
            raise NotReady(f"{self.loaded.manifest.id} is {state.name}: {state.reason}")

    # ---- a worker --------------------------------------------------------------------------------

    def _work(self, number: int) -> None:
        """Load, prove, answer; and from the start again where the process was lost."""
        pauses = _pauses()
        while not self._closing.is_set():
            model = WatchedModel(
                self.loaded,
                heartbeat=self.service.heartbeat,
                load_heartbeat=self.service.load_heartbeat,
                investigate=self._investigate,
                zygote=self._zygote,
            )
            try:
                self._ready(number, model)
            except JumarError as error:
                model.close()
                self.states.tell(number, "failed", str(error))
                if _is_final(error):
                    self._give_up(error)
                    return
            else:
                pauses = _pauses()
                self._serve(model)
                model.close()
                if not self._closing.is_set():
                    self.states.tell(number, "loading", "its process was lost")
            self._closing.wait(next(pauses))
        self.states.tell(number, "closed", "it was closed")

    def _ready(self, number: int, model: WatchedModel) -> None:
        self.states.tell(number, "loading")
        model.load()
        self.states.tell(number, "warming", "its golden answers are asked")
        self.parity = self._proven(model)
        self.states.tell(number, "ready", self.parity.status)

    def _proven(self, model: WatchedModel) -> Parity:
        parity = self._prove(model) if self._prove else Parity(status="unverified")
        if parity.status == "failed":
            raise ParityFailed(
                f"{parity.checked - parity.matched} of {parity.checked} golden answers are wrong."
            )
        if parity.status != "matched" and self.service.require_verified:
            raise ParityFailed(
                "There are no golden answers of this kind of device.",
                hint="jumar golden record MODEL --device …",
            )
        return parity

    def _give_up(self, error: JumarError) -> None:
        """Loading again would end the same way: with the last worker, what waits is refused."""
        if all(state.name == "failed" for state in self.states.each()):
            self._queue.close(NotReady(f"{self.loaded.manifest.id} failed: {error}"))

    def _serve(self, model: WatchedModel) -> None:
        """Answer until the model is lost, or there will be no more work."""
        while batch := self._queue.take():
            begun = [work for work in batch if _begins(work)]
            if begun:
                self._answer(model, begun)
            if not model.alive:
                return

    def _answer(self, model: WatchedModel, batch: list[Work]) -> None:
        begun = time.monotonic()
        if isinstance(batch[0].what[0], Visit):
            self._generate(model, batch[0])
        else:
            self._encode(model, batch)
        spent = (time.monotonic() - begun) / sum(work.size for work in batch)
        old = self._seconds or spent
        self._seconds = old + _SMOOTHING * (spent - old)

    def _generate(self, model: WatchedModel, work: Work) -> None:
        visit, future = work.what
        try:
            result = model.answer(visit)
        except JumarError as error:
            _fail(future, error)
            return
        result.metadata.parity = self.parity
        if not result.ok and not model.alive and self._once_more(work):
            visit.run.warn(f"It was run again: the worker was lost ({result.metadata.error})")
            return
        future.set_result(result)

    def _encode(self, model: WatchedModel, batch: list[Work]) -> None:
        """All texts in one; where that fails, each alone, so that nobody pays for another's."""
        texts = [text for work in batch for text in work.what[0].texts]
        try:
            vectors = model.encode(texts, **batch[0].what[0].config)
        except JumarError as error:
            self._encode_alone(model, batch, error)
            return
        at = 0
        for work in batch:
            work.what[1].set_result(vectors[at : at + work.size])
            at += work.size

    def _encode_alone(self, model: WatchedModel, batch: list[Work], error: JumarError) -> None:
        lost = not model.alive
        for work in batch:
            if lost and self._once_more(work):
                continue
            if lost or len(batch) == 1:
                _fail(work.what[1], error)
            else:
                self._encode(model, [work])

    def _once_more(self, work: Work) -> bool:
        """Whether work of a lost process waits again: once, as long as somebody wants it."""
        if work.tries or self._closing.is_set():
            return False
        work.tries += 1
        self._queue.again([work])
        return True


def _begins(work: Work) -> bool:
    """Whether somebody still wants it; from now on its future cannot be cancelled."""
    future: Future[Any] = work.what[1]
    return future.running() or future.set_running_or_notify_cancel()


def _fail(future: Future[Any], error: JumarError) -> None:
    if not future.done():
        future.set_exception(error)


def _is_final(error: JumarError) -> bool:
    """Whether loading again would end the same way: wrong answers, a wrong request."""
    return isinstance(error, ParityFailed) or 400 <= error.http_status < 500


def _pauses() -> Iterator[float]:
    """Seconds before each new start: 0, 1, 2, 4 … 60."""
    yield 0.0
    pause = 1.0
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE_S)

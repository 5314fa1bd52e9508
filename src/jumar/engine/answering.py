"""How a worker answers the work that it took: a request alone, texts of many callers together."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import JumarError
from jumar.contracts.results import Parity, StageEventRecord
from jumar.engine.queue import Work
from jumar.engine.service import Model
from jumar.engine.visit import Visit

if TYPE_CHECKING:
    import numpy as np

OnceMore = Callable[[Work, bool], bool]
"""Lets work of a lost worker wait again; False where it has had its tries. The second argument:
whether an operator was found guilty meanwhile, which makes it worth another one.
"""


@dataclass(frozen=True)
class Encoding:
    """Texts to be encoded, with the config of the request."""

    texts: Sequence[str]
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Vectors:
    """The vectors of an `Encoding`: float32 [n, dimensions]; and the tokens of each text, special
    ones included: empty where the model does not count them.
    """

    values: np.ndarray[Any, Any]
    tokens: tuple[int, ...] = ()


def answer(model: Model, batch: list[Work], parity: Parity, once_more: OnceMore) -> None:
    """Answer a batch; each work's future has its answer, its error, or the work waits again.

    `Work.what` is a pair: a `Visit` or an `Encoding`, and its future.
    """
    if isinstance(batch[0].what[0], Visit):
        _generate(model, batch[0], parity, once_more)
    else:
        _encode(model, batch, once_more)


def begins(work: Work) -> bool:
    """Whether somebody still wants it; from now on its future cannot be cancelled."""
    future: Future[Any] = work.what[1]
    return future.running() or future.set_running_or_notify_cancel()


def fail(future: Future[Any], error: JumarError) -> None:
    """Give an error for an answer, where there is none yet."""
    if not future.done():
        future.set_exception(error)


def _generate(model: Model, work: Work, parity: Parity, once_more: OnceMore) -> None:
    visit, future = work.what
    waited = time.monotonic() - work.arrived
    visit.run.known |= {
        "parity": parity,
        "queue_wait_ms": round(waited * 1e3, 3),
        "enqueued_at_ms": round((time.time() - waited) * 1e3),
    }
    reports: list[Callable[[], None]] = []
    try:
        result = model.answer(visit, later=reports.append)
    except JumarError as error:
        fail(future, error)
        return
    lost = not result.ok and not model.alive and not _stopped(visit)
    if lost and once_more(work, model.healed):
        visit.run.warn(f"It was run again: the worker was lost ({result.metadata.error})")
    else:
        future.set_result(result)
    for write in reports:  # the caller has his answer; the report on disk is for the operator
        write()


def _stopped(visit: Visit) -> bool:
    return visit.run.cancel is not None and visit.run.cancel.is_set()


def _encode(model: Model, batch: list[Work], once_more: OnceMore) -> None:
    """All texts in one; where that fails, each alone, so that nobody pays for another's."""
    texts = [text for work in batch for text in work.what[0].texts]
    counts: list[int] = []

    def count(event: StageEventRecord) -> None:
        counts.extend(event.data.get("tokens", ()))

    try:
        vectors = model.encode(texts, listener=count, **batch[0].what[0].config)
    except JumarError as error:
        _encode_alone(model, batch, error, once_more)
        return
    at = 0
    for work in batch:
        here = slice(at, at + work.size)
        work.what[1].set_result(Vectors(vectors[here], tuple(counts[here])))
        at += work.size


def _encode_alone(model: Model, batch: list[Work], error: JumarError, once_more: OnceMore) -> None:
    lost = not model.alive
    for work in batch:
        if lost and once_more(work, model.healed):
            continue
        if lost or len(batch) == 1:
            fail(work.what[1], error)
        else:
            _encode(model, [work], once_more)

"""How a worker answers the work that it took: a request alone, or many callers' together."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from jumar.contracts.errors import JumarError
from jumar.contracts.results import Parity, StageEventRecord
from jumar.engine.queue import Work
from jumar.engine.record import Owed
from jumar.engine.results import Encoding, Vectors
from jumar.engine.service import Model
from jumar.engine.visit import Visit
from jumar.engine.watched import WatchedModel

OnceMore = Callable[[Work, bool], bool]
"""Lets work of a lost worker wait again; False where it has had its tries. The second argument:
whether an operator was found guilty meanwhile, which makes it worth another one.
"""


@dataclass(frozen=True)
class Batch:
    """What a worker computed in one call, of a kind that could be computed with others': so many
    requests, with `texts` and their `tokens` (where these are counted), or with `pictures`.
    """

    requests: int
    texts: int = 0
    tokens: int = 0
    pictures: int = 0


Computed = Callable[[Batch], None]


def answer(
    model: Model,
    batch: list[Work],
    parity: Parity,
    once_more: OnceMore,
    owed: Owed,
    computed: Computed = lambda batch: None,
) -> JumarError | None:
    """Answer a batch; each work's future has its answer, its error, or the work waits again.

    `Work.what` is a pair: a `Visit` or an `Encoding`, and its future. A caller has his answer
    before the report of it is on disk, which is for the operator: that is `owed`. `computed` is
    told of each call that did not fail.

    Gives the error of a call for several requests, where that failed and they were taken apart.
    """
    if not isinstance(batch[0].what[0], Visit):
        owed.settle()
        _encode(model, batch, once_more, computed)
    elif len(batch) > 1:
        return _generate_together(model, batch, parity, once_more, owed, computed)
    else:
        _generate(model, batch[0], parity, once_more, owed, computed)
    return None


def begins(work: Work) -> bool:
    """Whether somebody still wants it; from now on its future cannot be cancelled."""
    future: Future[Any] = work.what[1]
    return future.running() or future.set_running_or_notify_cancel()


def fail(future: Future[Any], error: JumarError) -> None:
    """Give an error for an answer, where there is none yet."""
    if not future.done():
        future.set_exception(error)


def _generate(
    model: Model,
    work: Work,
    parity: Parity,
    once_more: OnceMore,
    owed: Owed,
    computed: Computed,
) -> None:
    visit, future = work.what
    visit.run.known |= _known(work, parity)
    try:
        result = model.answer(visit, owed=owed)
    except JumarError as error:
        fail(future, error)
        return
    if result.ok and work.together is not None:
        computed(Batch(1, pictures=work.size))
    lost = not result.ok and not model.alive and not _stopped(visit)
    if lost and once_more(work, model.healed):
        visit.run.warn(f"It was run again: the worker was lost ({result.metadata.error})")
    else:
        future.set_result(result)


def _generate_together(
    model: Model,
    batch: list[Work],
    parity: Parity,
    once_more: OnceMore,
    owed: Owed,
    computed: Computed,
) -> JumarError | None:
    """All in one call; whoever has no result of it is answered alone."""
    assert isinstance(model, WatchedModel)
    visits: list[Visit] = [work.what[0] for work in batch]
    group = {"batch_size": len(batch), "batch_group_id": secrets.token_hex(8)}
    for work, visit in zip(batch, visits, strict=True):
        visit.run.known |= {**_known(work, parity), **group}
    left_over, error = model.answer_together(
        visits, lambda number, result: batch[number].what[1].set_result(result), owed=owed
    )
    if error is None:
        computed(Batch(len(batch), pictures=sum(work.size for work in batch)))
    lost = not model.alive
    for work, run in ((batch[number], visits[number].run) for number in left_over):
        run.known |= {"batch_size": 1, "batch_group_id": None}
        run.warn(f"It was run again, alone: in one call with {len(batch) - 1} others: {error}")
        if not (lost and once_more(work, model.healed)):
            _generate(model, work, parity, once_more, owed, computed)
    return error


def _known(work: Work, parity: Parity) -> dict[str, Any]:
    waited = time.monotonic() - work.arrived
    return {
        "parity": parity,
        "queue_wait_ms": round(waited * 1e3, 3),
        "enqueued_at_ms": round((time.time() - waited) * 1e3),
    }


def _stopped(visit: Visit) -> bool:
    return visit.run.cancel is not None and visit.run.cancel.is_set()


def _encode(model: Model, batch: list[Work], once_more: OnceMore, computed: Computed) -> None:
    """All texts in one; where that fails, each alone, so that nobody pays for another's."""
    asked: list[Encoding] = [work.what[0] for work in batch]
    texts = [text for one in asked for text in one.texts]
    beside: dict[str, Any] = {
        name: [t for one in asked for t in one.beside[name]] for name in asked[0].beside
    }
    told: dict[str, Any] = {}

    def hear(event: StageEventRecord) -> None:
        if event.event == "tokenized":
            told.update(event.data)

    try:
        values: Any = model.encode(texts, listener=hear, **beside, **asked[0].config)
    except JumarError as error:
        _encode_alone(model, batch, error, once_more, computed)
        return
    tokens, over, windows = (tuple(told.get(n, ())) for n in ("tokens", "over", "windows"))
    computed(Batch(len(batch), len(texts), sum(tokens)))
    at = 0
    for work, one in zip(batch, asked, strict=True):
        here = slice(at, at + len(one.texts))
        counts = (tokens[here], over[here], windows[here])
        found = Vectors(values[here], *counts, head=told.get("head"), peak_mb=model.peak_mb)
        work.what[1].set_result(found)
        at += len(one.texts)


def _encode_alone(
    model: Model, batch: list[Work], error: JumarError, once_more: OnceMore, computed: Computed
) -> None:
    lost = not model.alive
    for work in batch:
        if lost and once_more(work, model.healed):
            continue
        if lost or len(batch) == 1:
            fail(work.what[1], error)
        else:
            _encode(model, [work], once_more, computed)

"""POST /v1/bundle: bodies of several reading routes at once. Those of one model are read together,
and each fails alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jumar.contracts.errors import InvalidRequest, JumarError
from jumar.engine.results import Vectors
from jumar.server import classifying, deciding, embedding, outward
from jumar.server.contracts import BundleBody, BundleTask
from jumar.server.desk import Desk
from jumar.server.reading import Asking, Surface, done, encoding_of, until
from jumar.server.wire import answered, checked, json_of

SURFACES: dict[str, Surface] = {
    "classify": classifying.classify,
    "embeddings": embedding.embed,
    "rerank": classifying.rerank,
    "decisions": deciding.decide,
}
"""What a task may be, by the name under which its body stands."""


class _Task:
    """One task on its way: from what is asked over what is read to what is answered."""

    def __init__(self, raw: Any) -> None:
        self.id = raw.get("id") if isinstance(raw, dict) else None
        self._raw = raw
        self._surface = ""
        self._asking: Asking | None = None
        self._reads: Any = None
        self._future: Future[Vectors] | None = None
        self._error: JumarError | None = None
        self.model = ""

    async def prepare(self, desk: Desk, request_id: str) -> None:
        """Check all that can be checked without the model."""
        try:
            self._surface, payload = _only(self._raw)
            self._asking = asking = SURFACES[self._surface](desk, payload)
            with asking.in_its_words():
                name = f"{request_id}/{self.id}"
                self._reads = await done(asking.size, encoding_of, desk, asking.body, name)
            self.model = self._reads[0].manifest.id
        except JumarError as error:
            self._error = error

    def begin(self, desk: Desk, deadline: float | None) -> Future[Vectors] | None:
        """Let it wait for the model, with the others. Does not wait itself."""
        if self._error is not None or self._asking is None:
            return None
        ends = [at for at in (deadline, until(self._asking.deadline_ms)) if at is not None]
        try:
            with self._asking.in_its_words():
                self._future = desk.house.encode(*self._reads, deadline=min(ends, default=None))
        except JumarError as error:
            self._error = error
        return self._future

    async def answer(self, desk: Desk) -> str:
        """Its result as JSON, once the model has answered."""
        content = ""
        try:
            if self._future is not None and self._asking is not None:
                with self._asking.in_its_words():
                    found = self._future.result()
                desk.metrics.read(self.model, found)
                content = await done(self._asking.size, self._asking.written, found)
        except JumarError as error:
            self._error = error
        named = json.dumps(self.id, ensure_ascii=False)
        if self._error is None:
            return f'{{"id":{named},"status":200,"{self._surface}":{content}}}'
        told = json.dumps(outward.envelope(self._error)["error"], ensure_ascii=False)
        return f'{{"id":{named},"status":{self._error.http_status},"error":{told}}}'


async def bundle(request: Request) -> Response:
    """The results of all tasks, in their order.

    Raises:
        InvalidRequest: it is no bundle, or two tasks have one id.
    """
    desk: Desk = request.app.state.desk
    body = checked(BundleBody, await json_of(request))
    tasks = [_Task(raw) for raw in body.tasks]
    _have_ids(tasks)
    deadline = until(body.options.deadline_ms)
    for task in tasks:
        await task.prepare(desk, request.state.request_id)
    begun = [task.begin(desk, deadline) for task in tasks]  # at once: a batch has them all
    futures = [future for future in begun if future is not None]
    request.state.told = {"tasks": len(tasks), "models": sorted({t.model for t in tasks} - {""})}
    if futures:
        await answered(request, _all(futures), lambda: [one.cancel() for one in futures])
    results = [await task.answer(desk) for task in tasks]
    return Response(f'{{"results":[{",".join(results)}]}}', media_type="application/json")


def _only(raw: Any) -> tuple[str, dict[str, Any]]:
    """The surface of a task, and its body."""
    if not isinstance(raw, dict):
        raise InvalidRequest("A task is a JSON object.", param="tasks")
    task = checked(BundleTask, raw)
    named = [name for name in SURFACES if getattr(task, name) is not None]
    if len(named) != 1 or not isinstance(payload := getattr(task, named[0]), dict):
        raise InvalidRequest(
            "A task has one body.", hint=f"Under one of {', '.join(SURFACES)}.", param="tasks"
        )
    return named[0], payload


def _have_ids(tasks: Sequence[_Task]) -> None:
    """Every result has to be found again."""
    ids = [task.id for task in tasks]
    for place, one in enumerate(ids):
        if not isinstance(one, str) or not one or ids.index(one) != place:
            raise InvalidRequest(f"Task {place} needs an id of its own.", param=f"tasks.{place}.id")


def _all(futures: Sequence[Future[Vectors]]) -> Future[None]:
    """Done when all of them are, however they ended."""
    every: Future[None] = Future()
    left, lock = [len(futures)], threading.Lock()

    def one_less(done: Future[Vectors]) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last and every.set_running_or_notify_cancel():
            every.set_result(None)

    for future in futures:
        future.add_done_callback(one_less)
    return every

"""A run that its caller waits for, and the error of one that failed."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from jumar.contracts.errors import Cancelled, JumarError, with_code
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.runtime.run import Listener
from jumar.server.desk import Desk
from jumar.server.wire import answered


async def result_of(
    request: Request, admitted: GenerateRequest, listener: Listener | None = None
) -> GenerateResult:
    """Run it, for as long as the caller is there; a run that fails has a result too. `listener` is
    called in a thread of the engine's.

    Raises:
        Cancelled: the caller has gone.
        JumarError: it was refused.
    """
    desk: Desk = request.app.state.desk
    told = request.state.told = {"model": admitted.model, "task": admitted.task}
    cancel = threading.Event()

    def begun() -> Future[GenerateResult]:
        visit = desk.visit(admitted, listener, cancel)
        visit.run.known["trace_id"] = request.state.request_id
        return desk.ask(visit)

    future = await run_in_threadpool(begun)
    try:
        return await answered(request, future, cancel.set)
    except Cancelled:
        request.state.told = {**told, "gone": True}
        raise


def error_of(result: GenerateResult) -> JumarError | None:
    """Why a run failed; None where it did not."""
    detail = result.metadata.error_detail
    if detail is None:
        return None
    return (with_code(detail.code) or JumarError)(detail.message, hint=detail.hint)

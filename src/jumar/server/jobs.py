"""/v1/jobs: list, look, cancel; events as they come, over SSE and WebSocket; the trace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, get_args

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from jumar.contracts.errors import (
    InvalidRequest,
    InvalidValue,
    JumarError,
    NotFound,
    NotReady,
    did_you_mean,
)
from jumar.engine.jobs import JobState
from jumar.reporting import as_trace
from jumar.server import outward
from jumar.server.desk import Desk
from jumar.server.wire import limit_of, number_of, object_of, refusal

QUIET_S = 15.0
"""A stream says something at least this often, so that nobody in between takes it for dead."""

MOST = 1000
"""Jobs in one list."""

QUERY: dict[str, dict[str, Any]] = {
    "state": {"enum": list(get_args(JobState))},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 100},
}
"""What narrows a list of jobs, as JSON Schema."""

Told = tuple[str, "int | None", dict[str, Any]]
"""Kind, the event's number, and the data."""


async def jobs(request: Request) -> Response:
    """The newest jobs; `state` and `limit` narrow the list."""
    desk: Desk = request.app.state.desk
    state = request.query_params.get("state")
    limit = limit_of(request, otherwise=100, most=MOST)
    if state is not None and state not in get_args(JobState):
        raise InvalidValue(
            f"There is no state {state[:40]!r}.",
            hint=did_you_mean(state[:40], get_args(JobState)),
            param="state",
        )
    return await run_in_threadpool(_listed, desk, state, limit)


async def job(request: Request) -> Response:
    """One job."""
    desk: Desk = request.app.state.desk
    found = await run_in_threadpool(desk.jobs.get, request.path_params["job"])
    return JSONResponse(await run_in_threadpool(desk.public_job, found))


async def delete(request: Request) -> Response:
    """Cancel it at any stage; forget one that is over."""
    desk: Desk = request.app.state.desk
    found = await run_in_threadpool(desk.jobs.delete, request.path_params["job"])
    return JSONResponse(await run_in_threadpool(desk.public_job, found))


async def trace(request: Request) -> Response:
    """The run of a job as Perfetto opens it."""
    desk: Desk = request.app.state.desk
    found = await run_in_threadpool(desk.jobs.get, request.path_params["job"])
    if found.result is None:
        raise NotReady(
            f"The job is {found.state}: it has no run to show.",
            hint="A trace is made of a finished run.",
        )
    return JSONResponse(as_trace(desk.shown(found.result).metadata))


async def events(request: Request) -> Response:
    """What happens in the job as server-sent events, from the first one; ends with the job."""
    desk: Desk = request.app.state.desk
    name = request.path_params["job"]
    after = number_of(request.headers.get("last-event-id", "")) or 0
    await run_in_threadpool(desk.jobs.get, name)  # NotFound, as long as a status can be sent

    async def lines() -> AsyncIterator[str]:
        async for kind, number, data in _told(desk, name, after):
            if kind == "quiet":
                yield ": still here\n\n"
                continue
            number_line = "" if number is None else f"id: {number}\n"
            yield f"{number_line}event: {kind}\ndata: {json.dumps(data)}\n\n"

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(lines(), media_type="text/event-stream", headers=headers)


async def socket(websocket: WebSocket) -> None:
    """The same over a WebSocket; `{"action": "cancel"}` stops the job."""
    desk: Desk = websocket.app.state.desk
    name = websocket.path_params["job"]
    try:
        await run_in_threadpool(desk.jobs.get, name)
    except JumarError as error:
        await websocket.send_denial_response(refusal(error))
        return
    await websocket.accept()
    hearing = asyncio.ensure_future(_hear(websocket, desk, name))
    try:
        async for kind, number, data in _told(desk, name):
            if hearing.done():
                return
            if kind != "quiet":
                await websocket.send_json({"type": kind, "id": number, "data": data})
        await websocket.close()
    except WebSocketDisconnect:
        return
    finally:
        hearing.cancel()


async def _hear(websocket: WebSocket, desk: Desk, name: str) -> None:
    """What the caller says; ends when he goes."""
    while (message := await websocket.receive())["type"] == "websocket.receive":
        try:
            action = object_of(message.get("text") or "", "The message").get("action")
        except InvalidRequest:
            action = None
        if action == "cancel":
            await run_in_threadpool(desk.jobs.cancel, name)
            continue
        wrong = InvalidRequest("Not understood.", hint='{"action": "cancel"}')
        await websocket.send_json({"type": "error", **wrong.envelope()})


async def _told(desk: Desk, name: str, after: int = 0) -> AsyncIterator[Told]:
    """Events above `after` and changes of the job's state, until it is over or forgotten.

    It listens before it looks, so that nothing falls in between.
    """
    loop, changed = asyncio.get_running_loop(), asyncio.Event()

    def heard(job_id: str) -> None:
        if job_id == name:
            loop.call_soon_threadsafe(changed.set)

    stop = desk.jobs.store.watch(heard)
    state = None
    try:
        while not desk.stopping:
            changed.clear()
            try:
                found = await run_in_threadpool(desk.jobs.store.get, name)
            except NotFound:
                return
            news = await run_in_threadpool(desk.jobs.store.events, name, after)
            for after, event in news:
                yield event.event, after, outward.event(event).model_dump(mode="json")
            if found.state != state:
                state = found.state
                yield "job", None, desk.public_job(found)
            if found.over:
                return
            try:
                await asyncio.wait_for(changed.wait(), QUIET_S)
            except asyncio.TimeoutError:
                yield "quiet", None, {}
    finally:
        stop()


def _listed(desk: Desk, state: str | None, limit: int) -> Response:
    found = desk.jobs.newest(state=state, limit=limit)
    return JSONResponse({"object": "list", "data": [desk.public_job(job) for job in found]})

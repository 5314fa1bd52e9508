"""How the server is. Nothing here waits for a model or a file."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar import __version__
from jumar.engine.states import State
from jumar.server.contracts import CONTRACT
from jumar.server.desk import Desk


async def live(request: Request) -> Response:
    """The process answers."""
    body = {"ok": True, "status": "alive", "version": __version__, "api_version": CONTRACT}
    return JSONResponse(body)


async def ready(request: Request) -> Response:
    """Whether requests are answered now: 503 with the reason where they are not."""
    desk: Desk = request.app.state.desk
    state = state_of(desk)
    body = {
        "ok": state.answers,
        "status": state.name,
        "reason": state.reason,
        "job_store_backend": desk.jobs.store.name,
    }
    return JSONResponse(body, 200 if state.answers else 503)


async def health(request: Request) -> Response:
    """The same, model by model."""
    desk: Desk = request.app.state.desk
    state = state_of(desk)
    models = {
        model: {"status": one.name, "reason": one.reason}
        for model, served in desk.house.by_id().items()
        for one in [served.states.state()]
    }
    body = {
        "api_version": CONTRACT,
        "status": state.name,
        "reason": state.reason,
        "model": next(iter(models), None),
        "models": models,
    }
    return JSONResponse(body, 200 if state.answers else 503)


async def metrics(request: Request) -> Response:
    """For Prometheus."""
    desk: Desk = request.app.state.desk
    return Response(desk.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def state_of(desk: Desk) -> State:
    """The server's state: that of the models that were named to it, ready where none was."""
    if desk.stopping:
        return State("closed", "the server is stopping")
    states = [(one.loaded.manifest.id, one.states.state()) for one in desk.house.named()]
    missing = [(model, state) for model, state in states if not state.answers]
    if not missing:
        return State("ready", "" if states else "models are loaded on demand")
    coming = [(model, state) for model, state in missing if state.name not in ("failed", "closed")]
    model, state = (coming or missing)[0]
    name = "degraded" if not coming and len(missing) < len(states) else state.name
    return State(name, f"{model} is {state.name}: {state.reason}".removesuffix(": "), state.since)

"""How the server is, and what it serves. Nothing here waits for a model or a file."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar import __version__, catalog
from jumar.catalog.index import ModelRow
from jumar.catalog.resolution import REMOTE
from jumar.engine.served import Served
from jumar.engine.states import State
from jumar.server.desk import Desk

TIME = 1_700_000_000
"""OpenAI's `created` of a model: a number that has to be there, and means nothing here."""


async def live(request: Request) -> Response:
    """The process answers."""
    return JSONResponse({"ok": True, "status": "live", "version": __version__})


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
        served.loaded.manifest.id: {"status": one.name, "reason": one.reason}
        for served in desk.house.models()
        for one in [served.states.state()]
    }
    body = {
        "api_version": __version__,
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


async def models(request: Request) -> Response:
    """OpenAI's list; each entry is also the model's card."""
    return JSONResponse({"object": "list", "data": cards(request.app.state.desk)})


async def model(request: Request) -> Response:
    """One of them."""
    return JSONResponse(card(request.app.state.desk, request.path_params["model"]))


def cards(desk: Desk) -> list[dict[str, Any]]:
    """All models that are served here, those that are loaded first, and those of other servers."""
    served = {one.loaded.manifest.id: one for one in desk.house.models()}
    rows = [row for row in catalog.rows() if desk.house.only is None or row.id in desk.house.only]
    rows.sort(key=lambda row: row.id not in served)
    own = [_card(row, served.get(row.id)) for row in rows]
    return own + [_card_of_upstream(name) for name in desk.settings.upstreams.named]


def card(desk: Desk, name: str) -> dict[str, Any]:
    """One of them; raises UnknownModel."""
    if name in desk.settings.upstreams.named:
        return _card_of_upstream(name)
    manifest = desk.manifest(name)
    served = {one.loaded.manifest.id: one for one in desk.house.models()}
    row = next(row for row in catalog.rows() if row.id == manifest.id)
    return _card(row, served.get(row.id))


def state_of(desk: Desk) -> State:
    """The server's state: that of the models that were named to it, ready where none was."""
    if desk.stopping:
        return State("closed", "the server is stopping")
    named = [one for one in desk.house.models() if one.loaded.manifest.id in desk.named]
    states = [(one.loaded.manifest.id, one.states.state()) for one in named]
    missing = [(model, state) for model, state in states if not state.answers]
    if not missing:
        return State("ready", "" if named else "models are loaded on demand")
    coming = [(model, state) for model, state in missing if state.name not in ("failed", "closed")]
    model, state = (coming or missing)[0]
    name = "degraded" if not coming and len(missing) < len(states) else state.name
    return State(name, f"{model} is {state.name}: {state.reason}".removesuffix(": "), state.since)


def _card(row: ModelRow, served: Served | None) -> dict[str, Any]:
    state = served.states.state() if served else State("starting", "loaded when it is asked for")
    parity = served.parity if served else None
    return {
        "id": row.id,
        "object": "model",
        "created": TIME,
        "owned_by": "jumar",
        "family": row.family,
        "summary": row.summary,
        "tier": row.tier,
        "tasks": list(row.tasks),
        "loaded": served is not None,
        "ready": state.answers,
        "status": state.name if served else "unloaded",
        "reason": state.reason,
        "device": served.device or served.loaded.backend if served else None,
        "device_class": served.device_class if served else None,
        "golden": parity.model_dump() if parity else {"status": "pending"},
        "waiting": served.waiting if served else 0,
        "pending": served.pending if served else 0,
        "execution_mode": served.service.execution_mode if served else None,
        "workers": [one.name for one in served.states.each()] if served else [],
    }


def _card_of_upstream(name: str) -> dict[str, Any]:
    """Another server's model: whether it answers shows when it is asked."""
    return {
        "id": name,
        "object": "model",
        "created": TIME,
        "owned_by": "upstream",
        "device": REMOTE,
        "golden": {"status": "unverified"},
    }

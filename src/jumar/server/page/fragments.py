"""The pieces that the page fetches, as the JSON routes beside them would tell the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from jumar.contracts.errors import UnknownModel, UnsupportedTask, did_you_mean
from jumar.engine.jobs import Job, now_ms
from jumar.reporting import as_article
from jumar.reporting.exhibits import fetched
from jumar.reporting.html import title_of
from jumar.server import cards, machine, outward, status
from jumar.server.desk import Desk
from jumar.server.page.drawing import fragment
from jumar.server.page.forms import groups

NEWEST = 12
"""Jobs on the first page."""


async def state(request: Request) -> Response:
    """Whether the server answers, and why not; where its models run."""
    desk: Desk = request.app.state.desk
    return fragment("state.html.j2", state=status.state_of(desk), device=desk.house.device)


async def home(request: Request) -> Response:
    """Everything at a glance."""
    desk: Desk = request.app.state.desk
    values = await run_in_threadpool(_now, desk)
    return fragment("home.html.j2", **values)


async def now(request: Request) -> Response:
    """What of it changes."""
    values = await run_in_threadpool(_now, request.app.state.desk)
    return fragment("now.html.j2", **values)


async def model(request: Request) -> Response:
    """A model and the form to try it; `?task=` is another than its first."""
    desk: Desk = request.app.state.desk
    card = cards.card(desk, request.path_params["model"])
    if card["owned_by"] == "upstream":
        return fragment("model.html.j2", card=card, task=None, groups=[])
    manifest = desk.manifest(card["id"])
    task = request.query_params.get("task", manifest.primary_task)
    if task not in manifest.tasks:
        raise UnsupportedTask(
            f"{manifest.id} does not do {task[:100]!r}.",
            hint=did_you_mean(task[:100], manifest.tasks),
            param="task",
        )
    return fragment("model.html.j2", card=card, task=task, groups=groups(manifest.tasks[task]))


async def card(request: Request) -> Response:
    """How a model is."""
    found = cards.card(request.app.state.desk, request.path_params["model"])
    return fragment("card.html.j2", card=found)


async def job(request: Request) -> Response:
    """A job: how far it is, or its report."""
    desk: Desk = request.app.state.desk
    found = await run_in_threadpool(desk.jobs.get, request.path_params["job"])
    values = await run_in_threadpool(_job, desk, found)
    return fragment("job.html.j2", **values)


def _now(desk: Desk) -> dict[str, Any]:
    every = cards.cards(desk)
    jobs = [_row(desk, one) for one in desk.jobs.newest(limit=NEWEST)]
    return {"cards": every, "jobs": jobs, "devices": machine.rows(desk)}


def _row(desk: Desk, job: Job) -> dict[str, Any]:
    """A job in few words. `ms` is how long it ran, or has run."""
    begun, ended = job.started_at_ms, job.finished_at_ms or now_ms()
    return {
        "id": job.id,
        "state": job.state,
        "model": job.request.model,
        "task": job.request.task,
        "title": title_of(desk.inbox.without(job.request.inputs)) or job.request.model,
        "progress": None if job.over else job.progress,
        "stopping": job.cancel_requested and not job.over,
        "begun": job.enqueued_at_ms,
        "ms": None if begun is None else max(0, ended - begun),
    }


def _job(desk: Desk, job: Job) -> dict[str, Any]:
    row = _row(desk, job)
    report = None if job.result is None else _article(desk, job)
    waits_for = _awaited(desk, job.request.model) if job.state == "queued" else None
    return {"job": row, "over": job.over, "report": report, "waits_for": waits_for,
            "error": outward.detail(job.error_detail)}  # fmt: skip


def _awaited(desk: Desk, model: str) -> dict[str, Any] | None:
    """The card of a job's model; None where only the server whose job it is serves that."""
    try:
        return cards.card(desk, model)
    except UnknownModel:
        return None


def _article(desk: Desk, job: Job) -> str:
    """The report of a job that is over, drawn as `jumar report --html` draws it."""
    assert job.result is not None
    files = {one.sha256: Path(one.path) for one in job.result.metadata.artifacts}
    report = desk.shown(job.result).metadata
    made = [fetched(one, files[one.sha256], report) for one in report.artifacts]
    return as_article(report, made)

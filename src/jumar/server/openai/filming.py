"""/v1/videos: videos as OpenAI's client asks for them: made while nobody waits, looked at, fetched.

A video is a job (/v1/jobs has it under the same id) whose task makes one.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from jumar.contracts.errors import (
    InvalidInput,
    InvalidValue,
    JumarError,
    NotFound,
    NotReady,
    with_code,
)
from jumar.engine.jobs import Job
from jumar.server import outward
from jumar.server.contracts import GenerateBody
from jumar.server.desk import Desk
from jumar.server.forms import form_of
from jumar.server.openai.asking import Asked, asked
from jumar.server.openai.bodies import FilmBody
from jumar.server.openai.videos import tasks_of
from jumar.server.wire import json_of, limit_of

MOST = 100
"""Videos in one list."""
_LOOKED_AT = 1000
"""Jobs among which videos are looked for: the newest."""

QUERY: dict[str, dict[str, Any]] = {
    "after": {"type": "string"},
    "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": 20},
    "order": {"enum": ["asc", "desc"], "default": "desc"},
}
"""What narrows a list of videos, as JSON Schema."""

_STATUS: dict[str, Literal["queued", "in_progress", "completed", "failed"]] = {
    "queued": "queued",
    "running": "in_progress",
    "succeeded": "completed",
    "failed": "failed",
    "cancelled": "failed",
}


class Video(BaseModel):
    """OpenAI's video. What nobody knows yet is empty: `seconds` and `size` before it is made."""

    id: str
    object: Literal["video"] = "video"
    model: str
    status: Literal["queued", "in_progress", "completed", "failed"]
    progress: int
    created_at: int
    completed_at: int | None
    expires_at: int | None
    prompt: str | None
    seconds: str
    size: str
    error: dict[str, str | None] | None
    remixed_from_video_id: None = None


async def create(request: Request) -> Response:
    """Ask for a video: a form, or the same as JSON."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        payload = await json_of(request)
        reference = payload.pop("input_reference", None)
        return await _asked(request, payload, {} if reference is None else _linked(reference))
    async with form_of(request, {"input_reference": "image"}) as (fields, inputs):
        return await _asked(request, fields, inputs)


async def retrieve(request: Request) -> Response:
    """One video."""
    desk: Desk = request.app.state.desk
    return _answer(desk, await run_in_threadpool(_found, desk, request.path_params["video"]))


async def videos(request: Request) -> Response:
    """The newest ones; `after` is the last of the page before."""
    desk, query = request.app.state.desk, request.query_params
    limit, order = limit_of(request, otherwise=20, most=MOST), query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise InvalidValue("order is asc or desc.", param="order")
    jobs = await run_in_threadpool(desk.jobs.newest, limit=_LOOKED_AT)
    found = [job for job in jobs if _is_video(job)][:: 1 if order == "desc" else -1]
    if (after := query.get("after")) is not None:
        places = [place for place, job in enumerate(found) if job.id == after]
        if not places:
            raise NotFound(f"There is no video {after[:80]!r}.", param="after")
        found = found[places[0] + 1 :]
    page = found[:limit]
    body = {
        "object": "list",
        "data": [_video(desk, job).model_dump() for job in page],
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
        "has_more": len(found) > len(page),
    }
    return JSONResponse(body)


async def delete(request: Request) -> Response:
    """Forget a video; one that is being made is stopped, and is there until it has stopped."""
    desk: Desk = request.app.state.desk
    name = request.path_params["video"]
    await run_in_threadpool(_found, desk, name)
    job = await run_in_threadpool(desk.jobs.delete, name)
    return JSONResponse({"id": name, "object": "video.deleted", "deleted": job.over})


async def content(request: Request) -> Response:
    """The video itself; ranges are honoured."""
    desk: Desk = request.app.state.desk
    variant = request.query_params.get("variant", "video")
    if variant != "video":
        raise InvalidValue(f"There is no {variant[:40]!r} of a video here.", param="variant")
    job = await run_in_threadpool(_found, desk, request.path_params["video"])
    if job.error_detail is not None:
        detail = job.error_detail
        raise (with_code(detail.code) or JumarError)(detail.message, hint=detail.hint)
    if job.result is None:
        raise NotReady(f"The video is {_STATUS[job.state]}.", hint=f"GET /v1/videos/{job.id}")
    film = await run_in_threadpool(desk.shelf.find, job.result.outputs[0].sha256 or "")
    return FileResponse(film.path, media_type=film.mime)


async def _asked(request: Request, payload: dict[str, Any], inputs: dict[str, Any]) -> Response:
    desk: Desk = request.app.state.desk
    one = asked(desk, FilmBody, payload, tasks_of({**payload, **inputs}))
    one.inputs.update(inputs)
    one.fields["image"] = "input_reference"
    one.carry("prompt", "prompt", one.body.prompt)
    one.carry_size(one.body.size)
    _carry_seconds(one)
    body = GenerateBody(model=one.manifest.id, task=one.task, inputs=one.inputs, config=one.config)
    name = request.state.request_id
    with outward.as_written(one.fields):
        admitted = await run_in_threadpool(desk.request, body, name)
        request.state.told = {"model": admitted.model, "task": admitted.task}
        job = await run_in_threadpool(desk.jobs.submit, admitted, trace_id=name)
    return _answer(desk, job)


def _carry_seconds(one: Asked[FilmBody]) -> None:
    """So many frames that the film is as long as that, to the nearest length that the model has."""
    seconds = one.body.seconds
    count, rate = one.spec.config.get("num_frames"), one.spec.config.get("fps")
    if seconds is None:
        return
    if count is None or rate is None or "num_frames" in one.config:
        raise InvalidValue(
            f"{one.manifest.id} takes no seconds here.",
            hint="The film is as long as its frames: num_frames, fps.",
            param="seconds",
        )
    least, step = int(count.minimum or 0), int(count.step or 1)
    frames = round(seconds * float(one.config.get("fps") or rate.default))
    one.config["num_frames"] = least + round((frames - least) / step) * step


def _linked(reference: Any) -> dict[str, Any]:
    """The picture of OpenAI's `{"image_url": …}`; whether it may be read, others decide."""
    if isinstance(reference, dict) and list(reference) == ["image_url"]:
        return {"image": reference["image_url"]}
    raise InvalidInput(
        "A picture to start from comes as a file of the form, or as its content.",
        hint='"input_reference": {"image_url": "data:image/png;base64,…"}',
        param="input_reference",
    )


def _found(desk: Desk, name: str) -> Job:
    job = desk.jobs.get(name)
    if not _is_video(job):
        raise NotFound(f"The job {name[:80]!r} makes no video.", hint=f"GET /v1/jobs/{name[:80]}")
    return job


def _is_video(job: Job) -> bool:
    return job.request.task.endswith("2video")


def _answer(desk: Desk, job: Job) -> Response:
    return JSONResponse(_video(desk, job).model_dump())


def _video(desk: Desk, job: Job) -> Video:
    config, made = job.request.config, job.result.outputs if job.result else []
    ended = job.finished_at_ms
    size = [config.get("width"), config.get("height")]
    seconds = None
    if made:
        size, seconds = [made[0].width, made[0].height], made[0].duration_s
    detail = outward.detail(job.error_detail)
    return Video(
        id=job.id,
        model=job.request.model,
        status=_STATUS[job.state],
        progress=_percent(job),
        created_at=job.enqueued_at_ms // 1000,
        completed_at=ended // 1000 if ended and job.state == "succeeded" else None,
        expires_at=round(ended / 1000 + desk.settings.keep_s) if ended else None,
        prompt=job.request.inputs.get("prompt"),
        seconds="" if seconds is None else f"{seconds:g}",
        size=f"{size[0]}x{size[1]}" if all(size) else "",
        error={"code": detail.code, "message": detail.message} if detail else None,
    )


def _percent(job: Job) -> int:
    if job.state == "succeeded":
        return 100
    done, total = (job.progress or {}).get("done"), (job.progress or {}).get("total")
    return min(99, int(100 * done / total)) if done and total else 0

"""POST /v1/generate and GET /v1/artifacts: the native face."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from jumar.contracts.errors import InvalidRequest
from jumar.contracts.results import GenerateResult
from jumar.server.contracts import GenerateBody, Transport
from jumar.server.desk import Desk
from jumar.server.forms import form_of
from jumar.server.runs import error_of, result_of
from jumar.server.wire import checked, json_of, object_of, refusal


async def generate(request: Request) -> Response:
    """Answer a request with its result, or at once with a job (`async_run`)."""
    desk: Desk = request.app.state.desk
    async with _payload(request) as payload:
        body = checked(GenerateBody, payload)
        admitted = await run_in_threadpool(desk.request, body, request.state.request_id)
    if not body.async_run:
        result = await result_of(request, admitted)
        return await run_in_threadpool(_response, desk, result, body.transport)
    name = request.state.request_id
    request.state.told = {"model": admitted.model, "task": admitted.task}
    job = await run_in_threadpool(desk.jobs.submit, admitted, trace_id=name)
    return JSONResponse(desk.public_job(job), 202, {"Location": f"/v1/jobs/{job.id}"})


async def artifact(request: Request) -> Response:
    """The file with this SHA-256; ranges are honoured."""
    desk: Desk = request.app.state.desk
    digest = request.path_params["sha256"]
    found = await run_in_threadpool(desk.shelf.find, digest)
    return FileResponse(
        found.path,
        media_type=found.mime,
        filename=Path(found.path).name,
        content_disposition_type="inline",
        headers={
            "ETag": f'"{digest}"',
            "Cache-Control": "private, immutable",
            "X-Content-Type-Options": "nosniff",
        },
    )


def _response(desk: Desk, result: GenerateResult, transport: Transport) -> Response:
    """The result; of a failed run its error in the envelope, and its report beside it."""
    shown = desk.public(result, transport)
    error = error_of(result)
    return JSONResponse(shown) if error is None else refusal(error, **shown)


@asynccontextmanager
async def _payload(request: Request) -> AsyncIterator[dict[str, Any]]:
    """The body: JSON, or a form whose field `request` is JSON and whose files are inputs."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        yield await json_of(request)
        return
    async with form_of(request) as (fields, uploads):
        hint = "request={…JSON…}, and a file per input: with curl -F audio=@FILE."
        for name in fields.keys() - {"request"}:
            raise InvalidRequest(f"There is no field {name[:100]!r}.", hint=hint, param=name[:100])
        if "request" not in fields:
            raise InvalidRequest("The form has no field 'request'.", hint=hint, param="request")
        payload = object_of(fields["request"], "The field 'request'")
        inputs = payload.setdefault("inputs", {})
        if not isinstance(inputs, dict):
            raise InvalidRequest("inputs is no object.", param="inputs")
        inputs.update(uploads)
        yield payload

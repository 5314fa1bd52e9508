"""POST /v1/generate and GET /v1/artifacts: the native face."""

from __future__ import annotations

import json
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from jumar.contracts.errors import Cancelled, InvalidRequest, JumarError, with_code
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.server.contracts import GenerateBody, Transport
from jumar.server.desk import Desk
from jumar.server.wire import answered, checked, json_of, refusal


async def generate(request: Request) -> Response:
    """Answer a request with its result, or at once with a job (`async_run`)."""
    desk: Desk = request.app.state.desk
    payload = await _payload(request)
    try:
        body = checked(GenerateBody, payload)
        admitted = await run_in_threadpool(desk.request, body, request.state.request_id)
    except JumarError:
        await run_in_threadpool(desk.inbox.discard, _mapping(payload.get("inputs")))
        raise
    request.state.told = {"model": admitted.model, "task": admitted.task}
    if body.async_run:
        name = request.state.request_id
        job = await run_in_threadpool(desk.jobs.submit, admitted, trace_id=name)
        where = {"Location": f"/v1/jobs/{job.id}"}
        return JSONResponse(desk.public_job(job), 202, where)
    result = await _result(request, desk, admitted)
    return await run_in_threadpool(_response, desk, result, body.transport)


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


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
        headers={"ETag": f'"{digest}"', "Cache-Control": "private, immutable"},
    )


async def _result(request: Request, desk: Desk, admitted: GenerateRequest) -> GenerateResult:
    cancel = threading.Event()

    def begun() -> Future[GenerateResult]:
        visit = desk.visit(admitted, None, cancel)
        visit.run.known["trace_id"] = request.state.request_id
        return desk.ask(visit)

    future = await run_in_threadpool(begun)
    try:
        return await answered(request, future, cancel.set)
    except Cancelled:
        request.state.told["gone"] = True
        raise


def _response(desk: Desk, result: GenerateResult, transport: Transport) -> Response:
    """The result; of a failed run its error in the envelope, and its report beside it."""
    shown = desk.public(result, transport)
    detail = result.metadata.error_detail
    if detail is None:
        return JSONResponse(shown)
    kind = with_code(detail.code) or JumarError
    return refusal(kind(detail.message, hint=detail.hint), **shown)


async def _payload(request: Request) -> dict[str, Any]:
    """The body: JSON, or a form whose field `request` is JSON and whose files are inputs."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return await json_of(request)
    desk: Desk = request.app.state.desk
    async with request.form(max_files=16, max_fields=16) as form:
        text = form.get("request")
        if not isinstance(text, str):
            raise InvalidRequest(
                "The form has no field 'request'.", hint="request={…JSON…}, and a file per input."
            )
        try:
            payload = json.loads(text)
            inputs = payload.setdefault("inputs", {})
            assert isinstance(inputs, dict)
        except (ValueError, AttributeError, AssertionError) as error:
            raise InvalidRequest("The field 'request' is no JSON object.", param="request") from (
                error
            )
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                suffix = Path(value.filename or "").suffix
                inputs[name] = desk.inbox.put(await value.read(), suffix)
    return payload  # type: ignore[no-any-return]

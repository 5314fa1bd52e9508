"""POST /v1/images/generations and /v1/images/edits."""

from __future__ import annotations

import base64
import time
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from jumar.contracts.errors import InvalidInput
from jumar.contracts.results import Artifact, GenerateResult
from jumar.server.forms import form_of, needed
from jumar.server.openai.asking import Asked, asked, headers_of, result_of
from jumar.server.openai.bodies import EditBody, ImageBody, ImageFields
from jumar.server.wire import json_of


async def generations(request: Request) -> Response:
    """Pictures from words."""
    payload = await json_of(request)
    one = asked(request.app.state.desk, ImageBody, payload, ("text2image",))
    _carry(one)
    return await answer(request, one, one.body.response_format)


async def edits(request: Request) -> Response:
    """A picture, drawn again after words; with a mask only that part of it."""
    files = {"image": "image", "mask": "mask"}
    async with form_of(request, files, ("image",)) as (fields, inputs):
        tasks = ("inpaint",) if "mask" in inputs else ("edit", "image2image")
        one = asked(request.app.state.desk, EditBody, fields, tasks)
        needed(inputs, "image", "image")
        if "mask" in inputs:
            await run_in_threadpool(_as_white, inputs["mask"])
        one.inputs.update(inputs)
        _carry(one)
        return await answer(request, one, one.body.response_format)


async def answer(request: Request, one: Asked[Any], form: str) -> Response:
    """Links to all that was made; with `b64_json` its content too."""
    result = await result_of(request, one)
    return await run_in_threadpool(_response, result, str(request.base_url), form == "b64_json")


def _carry(one: Asked[Any]) -> None:
    body: ImageFields = one.body
    one.carry("prompt", "prompt", body.prompt)
    one.carry("n", "num_images_per_prompt", body.n, neutral=(1,))
    one.carry_size(body.size)
    one.carry("output_format", "response_format", body.output_format, neutral=("png",))


def _response(result: GenerateResult, base: str, content: bool) -> Response:
    data = [_datum(artifact, base, content) for artifact in result.outputs]
    return JSONResponse({"created": int(time.time()), "data": data}, headers=headers_of(result))


def _datum(artifact: Artifact, base: str, content: bool) -> dict[str, Any]:
    datum: dict[str, Any] = {"url": f"{base}v1/artifacts/{artifact.sha256}"}
    if content:
        datum["b64_json"] = base64.b64encode(Path(artifact.path).read_bytes()).decode()
    return datum


def _as_white(mask: str) -> None:
    """OpenAI's mask is transparent where the picture is made anew, Jumar's is white there.

    A mask without transparency is black and white already.

    Raises:
        InvalidInput: it is no picture.
    """
    from PIL import Image, ImageChops

    try:
        with Image.open(mask) as picture:
            if not picture.has_transparency_data:
                return
            alpha = picture.convert("RGBA").getchannel("A")
    except (OSError, ValueError, Image.DecompressionBombError) as error:
        raise InvalidInput("The mask is no picture, or a damaged one.", param="mask") from error
    ImageChops.invert(alpha).save(mask, format="PNG")

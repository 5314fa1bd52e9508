"""POST /v1/videos/generations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from jumar.server.openai.asking import asked
from jumar.server.openai.bodies import VideoBody
from jumar.server.openai.images import answer
from jumar.server.wire import json_of

_TASKS = ("text2video", "image2video", "audio2video")
_BY_INPUT = {"audio": "audio2video", "image": "image2video"}


async def generations(request: Request) -> Response:
    """A video from words, or from a picture or a sound as a `data:` address."""
    payload = await json_of(request)
    one = asked(request.app.state.desk, VideoBody, payload, tasks_of(payload))
    one.carry("prompt", "prompt", one.body.prompt)
    one.carry_size(one.body.size)
    return await answer(request, one, one.body.response_format)


def tasks_of(payload: Mapping[str, Any]) -> tuple[str, ...]:
    """What may be meant: first the task that starts from what was given."""
    meant = next((task for key, task in _BY_INPUT.items() if key in payload), "text2video")
    return (meant, *(task for task in _TASKS if task != meant))

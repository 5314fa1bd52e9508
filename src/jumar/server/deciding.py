"""POST /v1/decisions: typed questions about a text, answered by what a classifier reads in it."""

from __future__ import annotations

from functools import partial
from typing import Any

from jumar import catalog
from jumar.contracts.errors import InvalidInput, JumarError
from jumar.engine.results import Vectors
from jumar.reporting.decisions import Asked
from jumar.server import outward
from jumar.server.classifying import head_of
from jumar.server.contracts import DecideBody, GenerateBody
from jumar.server.desk import Desk
from jumar.server.reading import OPTIONS, Asking, config_of, usage, written
from jumar.server.wire import checked


def decide(desk: Desk, payload: dict[str, Any]) -> Asking:
    """The answer to each question, or what is wrong with it.

    Raises:
        UnsupportedTask: the model answers no questions.
        InvalidRequest: none of these.
    """
    body = checked(DecideBody, payload)
    manifest = desk.manifest(body.model)
    if "decisions" not in manifest.tasks:
        with outward.as_written({}):
            catalog.resolve(desk.request(GenerateBody(model=body.model, task="decisions"), ""))
    asked = Asked.of(body.state, body.questions, manifest.options.get("questions"))
    reads = GenerateBody(
        model=body.model,
        task=asked.task,
        inputs=dict(asked.inputs),
        config=config_of(body.options),
    )
    return Asking(
        reads,
        len(asked.rows),
        partial(_decided, body, asked),
        body.options.deadline_ms,
        {"texts": "state", "hypotheses": "questions", **OPTIONS},
        partial(_blamed, asked),
    )


def _decided(body: DecideBody, asked: Asked, found: Vectors) -> str:
    content = {
        "model": body.model,
        "answers": asked.answers(head_of(found), found.values),
        "usage": usage(found),
    }
    if body.options.return_meta:
        content["meta"] = _meta(found)
    return written(content)


def _meta(found: Vectors) -> dict[str, Any]:
    """How much was read, of all that the questions made of the state."""
    tokens, over = sum(found.tokens), sum(found.over)
    return {
        "texts": len(found.values),
        "tokens": tokens + over,
        "processed_tokens": tokens,
        "truncated": over > 0,
        "windows": max(found.windows, default=1),
    }


def _blamed(asked: Asked, error: JumarError) -> JumarError:
    return asked.blamed(error) if isinstance(error, InvalidInput) else error

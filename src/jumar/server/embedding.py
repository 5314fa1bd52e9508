"""POST /v1/embeddings, as OpenAI has it."""

from __future__ import annotations

import base64
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidValue
from jumar.engine.results import Vectors
from jumar.server.abilities import representation
from jumar.server.cards import pinned
from jumar.server.contracts import EmbeddingsBody, GenerateBody
from jumar.server.desk import Desk
from jumar.server.reading import Asking, usage
from jumar.server.wire import checked

if TYPE_CHECKING:
    import numpy as np


def embed(desk: Desk, payload: dict[str, Any]) -> Asking:
    """Vectors of texts; those of several callers are computed together."""
    given = payload.get("input")
    if isinstance(given, list) and given and isinstance(given[0], int | list):
        raise InvalidValue(
            "input holds tokens, and whose they are nobody can tell.",
            hint="Send texts: each model has a tokenizer of its own.",
            param="input",
        )
    body = checked(EmbeddingsBody, payload)
    size = 1 if isinstance(body.input, str) else len(body.input)
    config = {} if body.dimensions is None else {"dimensions": body.dimensions}
    asked = GenerateBody(
        model=body.model, task="embeddings", inputs={"texts": body.input}, config=config
    )
    written_as = partial(_content, body, pinned(desk, desk.manifest(body.model)))
    deadlines = [one for one in (body.deadline_ms, body.options.deadline_ms) if one is not None]
    return Asking(asked, size, written_as, min(deadlines, default=None), {"texts": "input"})


def _content(body: EmbeddingsBody, sha256: str | None, vectors: Vectors) -> str:
    """OpenAI's list as JSON, made vector by vector: a large one must not keep others waiting, as
    `json.dumps` of the whole would (it holds the interpreter's lock to its end).
    """
    written = _base64 if body.encoding_format == "base64" else _numbers
    rows = ",".join(
        f'{{"object":"embedding","index":{place},"embedding":{written(row)}}}'
        for place, row in enumerate(vectors.values)
    )
    model, count = json.dumps(body.model), json.dumps(usage(vectors))
    space = representation(vectors.about, sha256, len(vectors.values[0]))
    wanted = body.options.return_meta and space is not None
    meta = f',"meta":{json.dumps({"representation": space})}' if wanted else ""
    return f'{{"object":"list","data":[{rows}],"model":{model},"usage":{count}{meta}}}'


def _numbers(vector: np.ndarray[Any, Any]) -> str:
    """A vector as JSON. Nine digits say a float32 exactly (IEEE 754: 1 + 24 log10 2, rounded up);
    `json.dumps` takes four times as long for the digits of a float64.
    """
    return f"[{','.join(['%.9g'] * len(vector))}]" % tuple(vector.tolist())


def _base64(vector: np.ndarray[Any, Any]) -> str:
    """A vector as base64 of float32, little-endian."""
    return f'"{base64.b64encode(vector.astype("<f4").tobytes()).decode()}"'

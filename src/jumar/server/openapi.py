"""The OpenAPI document, from the table of routes and the contracts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from jumar import __version__

if TYPE_CHECKING:
    from jumar.server.routes import Row

_NAMES = re.compile(r"{(\w+)}")
_REF = "#/components/schemas/{model}"
_ENVELOPE = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "type"],
            "properties": {
                name: {"type": ["string", "null"]}
                for name in ("code", "message", "type", "param", "hint")
            },
        }
    },
}


def document(rows: Iterable[Row]) -> dict[str, Any]:
    """The document, OpenAPI 3.1."""
    rows = list(rows)
    every = {
        model
        for row in rows
        for model in (row.takes, row.gives, row.form, *row.also.values())
        if model is not None
    }
    ordered = sorted(every, key=lambda model: model.__name__)
    modes: list[Any] = [(model, "validation") for model in ordered]
    _, schema = models_json_schema(modes, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for row in rows:
        paths.setdefault(row.path, {})[row.method.lower()] = _operation(row)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Jumar", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": {**schema.get("$defs", {}), "Error": _ENVELOPE},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(row: Row) -> dict[str, Any]:
    answers = {200: row.gives, **row.also}
    found: dict[str, Any] = {
        "summary": row.summary,
        "parameters": [
            *(_parameter(name, "path", {"type": "string"}) for name in _NAMES.findall(row.path)),
            *(_parameter(name, "query", schema) for name, schema in row.query.items()),
        ],
        "responses": {
            **{str(status): _answer(row.media, model) for status, model in answers.items()},
            "default": {
                "description": "An error.",
                "content": {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}},
            },
        },
    }
    bodies = {"application/json": row.takes, "multipart/form-data": row.form}
    content = {kind: {"schema": _ref(model)} for kind, model in bodies.items() if model}
    if content:
        found["requestBody"] = {"required": True, "content": content}
    return found


def _parameter(name: str, place: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": dict(schema)}


def _answer(media: Iterable[str], model: type[BaseModel] | None) -> dict[str, Any]:
    content = {kind: {"schema": _ref(model)} if "json" in kind else {} for kind in media}
    return {"description": "Done.", "content": content}


def _ref(model: type[BaseModel] | None) -> dict[str, Any]:
    return {} if model is None else {"$ref": _REF.format(model=model.__name__)}

"""The OpenAPI document, from the table of routes and the contracts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from jumar import __version__

if TYPE_CHECKING:
    from jumar.server.routes import Row

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
    bodies = {model for row in rows for model in (row.takes, row.gives) if model is not None}
    ordered = sorted(bodies, key=lambda model: model.__name__)
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
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"{(\w+)}", row.path)
    ]
    found: dict[str, Any] = {
        "summary": row.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {row.media: {"schema": _ref(row.gives)}}},
            "default": {
                "description": "An error.",
                "content": {"application/json": {"schema": {"$ref": _REF.format(model="Error")}}},
            },
        },
    }
    if row.takes is not None:
        body = {"application/json": {"schema": _ref(row.takes)}}
        found["requestBody"] = {"required": True, "content": body}
    return found


def _ref(model: type[BaseModel] | None) -> dict[str, Any]:
    return {} if model is None else {"$ref": _REF.format(model=model.__name__)}

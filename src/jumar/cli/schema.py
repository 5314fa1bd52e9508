"""`jumar schema`: the JSON Schema of each contract."""

from __future__ import annotations

from typing import Any

import click

from jumar.cli import show
from jumar.contracts.errors import InvalidRequest, JumarError, did_you_mean

_CONTRACTS = (
    "GenerateRequest",
    "GenerateResult",
    "RunReport",
    "Artifact",
    "BackendTimelineEntry",
    "StageEventRecord",
)
_ENVELOPE = "ErrorEnvelope"


@click.command()
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """Print the JSON Schema of a contract; without NAME, the names."""
    known = {folded.casefold(): folded for folded in (*_CONTRACTS, _ENVELOPE)}
    if name is None:
        click.echo("\n".join(known.values()))
        return
    if name.casefold() not in known:
        raise InvalidRequest(
            f"There is no contract {name!r}.", hint=did_you_mean(name, known.values()), param="name"
        )
    show.as_json(_schema(known[name.casefold()]))


def _schema(name: str) -> dict[str, Any]:
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if name == _ENVELOPE:
        return dialect | _envelope()
    from jumar import contracts

    schema: dict[str, Any] = getattr(contracts, name).model_json_schema()
    return dialect | schema


def _envelope() -> dict[str, Any]:
    """Made from a real error, so that the two cannot part."""
    fields = JumarError("").envelope()["error"]
    nullable = ("param", "hint")
    return {
        "title": _ENVELOPE,
        "description": "The answer to a wrong request, over HTTP and with --json.",
        "type": "object",
        "additionalProperties": False,
        "required": ["error"],
        "properties": {
            "error": {
                "type": "object",
                "additionalProperties": False,
                "required": list(fields),
                "properties": {
                    key: {"type": ["string", "null"] if key in nullable else "string"}
                    | ({"enum": _codes()} if key == "code" else {})
                    for key in fields
                },
            }
        },
    }


def _codes() -> list[str]:
    kinds = [JumarError]
    for kind in kinds:
        kinds.extend(kind.__subclasses__())
    return sorted({kind.code for kind in kinds})

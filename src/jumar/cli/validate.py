"""`jumar validate`: what a request will become, or everything that is wrong with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jumar import catalog
from jumar.cli import show
from jumar.cli.flags import ModelCommand, request_of, request_options
from jumar.contracts.errors import JumarError

if TYPE_CHECKING:
    from jumar.contracts.requests import GenerateRequest


@click.command(cls=ModelCommand)
@request_options
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **_: Any) -> None:
    """Check a request without running it: no weights are touched.

    Takes what `jumar generate` takes; prints each value and where it comes from.
    """
    ctx.exit(checked(request_of(ctx), json_only=as_json))


def checked(request: GenerateRequest, *, json_only: bool) -> int:
    """Print the resolved request or all that is wrong with it; the exit code."""
    found: list[JumarError] = list(catalog.issues(request))
    if not found:
        from jumar import engine

        try:
            show.resolved(engine.validate(request), json_only=json_only)
        except JumarError as error:
            found.append(error)
    if not found:
        return 0
    show.problems(found, json_only=json_only)
    return max(error.exit_code for error in found)

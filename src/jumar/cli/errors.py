"""Errors on the command line: one shape for people, the envelope with --json, one exit code."""

from __future__ import annotations

import errno
import json

import click

from jumar.contracts.errors import (
    Cancelled,
    InvalidRequest,
    JumarError,
    OutputFailed,
    UnknownKey,
    did_you_mean,
)


def problem(error: BaseException) -> JumarError:
    """The error of the tree that says what `error` says.

    What click refuses is a wrong request; what nobody foresaw is a fault of Jumar.
    """
    if isinstance(error, JumarError):
        return error
    if isinstance(error, click.NoSuchOption):
        return _no_such_option(error)
    if isinstance(error, click.ClickException):
        return InvalidRequest(error.format_message(), hint=_see_help(error))
    if isinstance(error, (click.Abort, KeyboardInterrupt)):
        return Cancelled("Stopped.")
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        unwritten = OutputFailed(f"Cannot write the output: {error.strerror}.")
        unwritten.__cause__ = error
        return unwritten
    if isinstance(error, UnicodeEncodeError) and error.encoding != "utf-8":
        letters = error.object[error.start : error.end]
        return OutputFailed(
            f"The output is in {error.encoding}, which has no {letters!r}.",
            hint="Set PYTHONIOENCODING=utf-8.",
        )
    unforeseen = JumarError(
        f"Unexpected {type(error).__name__}.",
        hint="This is a fault of Jumar. The same command with --debug shows the traceback.",
    )
    unforeseen.__cause__ = error
    return unforeseen


def exit_code_of(error: JumarError, *, as_json: bool, debug: bool) -> int:
    """Tell the user of an error; the exit code that belongs to it."""
    if debug:
        import traceback

        origin = error if error.__traceback__ is not None else error.__cause__ or error
        click.echo("".join(traceback.format_exception(origin)), err=True, nl=False)
    if as_json:
        try:
            click.echo(json.dumps(error.envelope(), indent=2, ensure_ascii=False))
            return error.exit_code
        except OSError as unwritable:  # stdout itself is what cannot be written
            error = problem(unwritable)
    tell(error.code, error.message, error.hint, error.cause)
    return error.exit_code


def tell(code: str, message: str, hint: str | None = None, cause: str | None = None) -> None:
    """Write an error to stderr, a line for each part that it has."""
    click.echo(f"{click.style(f'error[{code}]', fg='red', bold=True)}: {message}", err=True)
    for name, text, style in (("hint", hint, {"fg": "cyan"}), ("cause", cause, {"dim": True})):
        if text:
            click.echo(f"{click.style(name, **style)}: {text}", err=True)


def exit_code_for(code: str) -> int:
    """The exit code of an error that a report holds as its stable code; 1 for an unknown one."""
    kinds = [JumarError]
    for kind in kinds:
        if kind.code == code:
            return kind.exit_code
        kinds.extend(kind.__subclasses__())
    return 1


def _no_such_option(error: click.NoSuchOption) -> UnknownKey:
    ctx, name = error.ctx, error.option_name
    known = [opt for param in ctx.command.get_params(ctx) for opt in param.opts] if ctx else []
    hint = did_you_mean(name, (opt for opt in known if opt.startswith("--")))
    return UnknownKey(f"There is no option {name}.", hint=hint, param=name)


def _see_help(error: click.ClickException) -> str | None:
    ctx = getattr(error, "ctx", None)
    return f"{ctx.command_path} --help" if ctx else None

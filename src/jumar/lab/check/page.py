"""A check as one HTML page that needs nothing else: a table and its details."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.lab.check.summary import Summary


def as_html(summary: Summary) -> str:
    """The page; emulated devices are called emulated in its title."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    judgements = summary.judgements()
    columns = {
        "verdict": sorted({one.kind for one in judgements}),
        "dtype": sorted({one.subject.dtype for one in judgements}),
    }
    return environment.get_template("page.html.j2").render(
        summary=summary, judgements=judgements, columns=columns, where=shown(summary.fingerprint)
    )


def shown(fingerprint: Mapping[str, str]) -> str:
    """What was checked on, in words."""
    emulated = fingerprint["device_class"].endswith("-emulated")
    return f"{fingerprint.get('chip', fingerprint['device_class'])}" + (
        " — emulated, no hardware was checked" if emulated else ""
    )

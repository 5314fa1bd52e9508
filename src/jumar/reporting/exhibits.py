"""What a run made, as a page shows it: embedded in a page of its own, or fetched by a server's."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from jumar.contracts.results import Artifact, RunReport
from jumar.reporting.units import describe, size
from jumar.reporting.vectors import rows_of, similarities

EMBED_LIMIT = 64_000_000
"""Bytes of one artifact that are put into the page; a larger file is only named."""
_HEAT_LIMIT = 16


@dataclass(frozen=True)
class Exhibit:
    """An artifact as a page shows it.

    Args:
        uri: Where its content is: in itself (`data:`), or to be fetched; None where it is not
            shown, and `note` says why.
        source: The attribute that holds `uri`: `src`, or the one that a script looks for.
        name: What a file that is fetched is called.
        labels, heat: Texts, and how alike their vectors are, [n, n].
    """

    artifact: Artifact
    facts: str
    uri: str | None = None
    note: str | None = None
    source: Literal["src", "data-file"] = "src"
    name: str | None = None
    labels: list[str] = field(default_factory=list)
    heat: list[list[float]] = field(default_factory=list)


def embedded(artifact: Artifact, report_path: Path, report: RunReport) -> Exhibit:
    """With its content; a file that is gone, too large, or no longer the same is named so."""
    facts = describe(artifact)
    try:
        content = _content(artifact, report_path)
    except OSError as error:
        return Exhibit(artifact, facts, note=f"The file cannot be read: {error.strerror}.")
    if content is None:
        return Exhibit(artifact, facts, note=f"Over {size(EMBED_LIMIT)}: not embedded.")
    note = None
    if artifact.sha256 and hashlib.sha256(content).hexdigest() != artifact.sha256:
        note = "The file is no longer the one that this run wrote."
    if artifact.kind == "vectors":
        labels, heat = _likeness(content, report)
        return Exhibit(artifact, facts, note=note, labels=labels, heat=heat)
    uri = f"data:{artifact.mime};base64,{base64.b64encode(content).decode('ascii')}"
    return Exhibit(artifact, facts, uri=uri, note=note)


def fetched(artifact: Artifact, file: Path, report: RunReport) -> Exhibit:
    """With a link, which `artifact.path` holds; `file` is where it lies, and only read to compare
    vectors.
    """
    facts = describe(artifact)
    if not file.is_file():
        return Exhibit(artifact, facts, note="It is not kept any more.")
    compared = artifact.kind == "vectors" and file.stat().st_size <= EMBED_LIMIT
    likeness = _likeness(file.read_bytes() if compared else b"", report)
    return Exhibit(artifact, facts, artifact.path, None, "data-file", file.name, *likeness)


def _content(artifact: Artifact, report_path: Path) -> bytes | None:
    """The bytes of an artifact, None where they are too many.

    A report that was moved together with its artifacts still finds them beside it.
    """
    if artifact.data_b64 is not None:
        return base64.b64decode(artifact.data_b64)
    path = Path(artifact.path)
    if not path.exists():
        path = report_path.parent / path.name
    return path.read_bytes() if path.stat().st_size <= EMBED_LIMIT else None


def _likeness(content: bytes, report: RunReport) -> tuple[list[str], list[list[float]]]:
    """Texts, and the cosine of each one's vector with each; nothing of it where they are many."""
    rows = rows_of(content) or []
    heat = similarities(rows) if 1 < len(rows) <= _HEAT_LIMIT else []
    texts = report.inputs.get("texts")
    if isinstance(texts, list) and len(texts) == len(heat):
        return [str(text) for text in texts], heat
    return [str(number + 1) for number in range(len(heat))], heat

"""Artifacts by their digest: who knows it may fetch them, as long as they are kept."""

from __future__ import annotations

import base64
import re
import time
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from jumar.contracts.errors import NotFound
from jumar.contracts.results import Artifact, GenerateResult
from jumar.server.contracts import Transport

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Shelf:
    """A folder of artifacts and, beside them, one card each: `<sha256>.json`, an `Artifact`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def keep(self, result: GenerateResult) -> None:
        """Have the artifacts of a result found by their digests."""
        for artifact in result.outputs:
            card = self.folder / f"{artifact.sha256}.json"
            part = self.folder / f"{uuid4().hex}.part"  # others may be making the same card
            part.write_text(artifact.model_dump_json(), encoding="utf-8")
            part.replace(card)

    def find(self, digest: str) -> Artifact:
        """The artifact with this SHA-256.

        Raises:
            NotFound: there is none, or not any more.
        """
        card = self.folder / f"{digest}.json"
        if _DIGEST.fullmatch(digest) and card.is_file():
            artifact = Artifact.model_validate_json(card.read_text(encoding="utf-8"))
            if Path(artifact.path).is_file():
                return artifact
        raise NotFound("There is no such artifact.", hint="Artifacts are kept for a time.")

    def sweep(self, seconds: float) -> None:
        """Take away what is older than this."""
        oldest = time.time() - seconds
        for file in self.folder.iterdir():
            with suppress(FileNotFoundError):  # a part that has its name by now
                if file.stat().st_mtime < oldest:
                    file.unlink()

    def public(self, result: GenerateResult, transport: Transport = "path") -> GenerateResult:
        """The result as callers see it: links or content for the paths of this machine."""
        shown = [self._public(artifact, transport) for artifact in result.outputs]
        links = [self._public(artifact, "path") for artifact in result.metadata.artifacts]
        metadata = result.metadata.model_copy(update={"artifacts": links})
        return GenerateResult(outputs=shown, metadata=metadata)

    def _public(self, artifact: Artifact, transport: Transport) -> Artifact:
        changed: dict[str, str] = {"path": f"/v1/artifacts/{artifact.sha256}"}
        if transport == "inline_bytes":
            content = Path(artifact.path).read_bytes()
            changed |= {"transport": transport, "data_b64": base64.b64encode(content).decode()}
        return artifact.model_copy(update=changed)

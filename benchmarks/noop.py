"""A family whose model does nothing: what is left is what Jumar itself costs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from jumar.catalog.resolution import ResolvedRequest
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, Draft, LoadPlan
from jumar.runtime.run import Run

MANIFEST: dict[str, Any] = {
    "id": "noop",
    "summary": "Does nothing; with a prompt it makes a file of three bytes.",
    "family": "noop",
    "tier": "experimental",
    "licence": "Apache-2.0",
    "tasks": {"text2audio": None},
    "inputs": {"prompt": {"default": ""}},
    "config": {},
}


def manifests() -> list[dict[str, Any]]:
    """The entry point of `jumar.manifests`."""
    return [MANIFEST]


class Noop:
    """The family."""

    name = "noop"
    requires: tuple[str, ...] = ()
    converters: Mapping[str, Converter] = {}

    def refuses(self, placement: Placement) -> str | None:
        """It runs anywhere."""
        return None

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """Nothing to read."""
        return dict(request.inputs)

    def load(self, plan: LoadPlan, run: Run) -> NoopModel:
        """Nothing to load."""
        return NoopModel()


class NoopModel:
    """The model."""

    def generate(self, run: Run) -> list[Draft]:
        """One stage, as any model has; one file, where it is asked for."""
        with run.stage("run"):
            if not run.inputs["prompt"]:
                return []
        return [
            Draft(kind="audio", mime="audio/wav", suffix=".wav", write=lambda f: f.write(b"abc"))
        ]

    def close(self) -> None:
        """Nothing to let go."""


def _three_bytes(file: BinaryIO) -> object:
    return file.write(b"abc")


def install(folder: Path) -> None:
    """Put it into a folder that stands on `sys.path`, as an installed distribution."""
    info = folder / "jumar_noop-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jumar_noop\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[jumar.manifests]\nnoop = benchmarks.noop:manifests\n"
        "[jumar.families]\nnoop = benchmarks.noop:Noop\n"
    )

"""A family whose model does nothing: what is left is what Jumar itself costs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from jumar.catalog.resolution import ResolvedRequest
from jumar.devices.base import Placement
from jumar.runtime.families.base import Converter, Draft, LoadPlan
from jumar.runtime.run import Run

BUSY_S, STEP_S = 5.0, 0.01

MANIFEST: dict[str, Any] = {
    "id": "noop",
    "summary": "Does nothing; with a prompt it makes a file of three bytes, or is busy.",
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


class Steps(Protocol):
    """What hears of the steps of a run."""

    def step(self, done: int, total: int | None = None) -> None:
        """One more is done."""


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
            if run.inputs["prompt"] == "busy":
                busy(run)
        return [
            Draft(kind="audio", mime="audio/wav", suffix=".wav", write=lambda f: f.write(b"abc"))
        ]

    def close(self) -> None:
        """Nothing to let go."""


def busy(run: Steps) -> None:
    """As a model is on a CPU: arithmetic on all cores, and a step told a hundred times a second."""
    import numpy as np

    matrix = np.random.default_rng(0).random((256, 256))
    until, told = time.monotonic() + BUSY_S, 0
    while time.monotonic() < until:
        until_told = time.monotonic() + STEP_S
        while time.monotonic() < until_told:
            matrix @ matrix
        told += 1
        run.step(told, round(BUSY_S / STEP_S))


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

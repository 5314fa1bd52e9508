"""A model of another distribution that answers several requests in one call, without torch."""

from __future__ import annotations

import os
import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidModelOutput
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.run import Run
from tests.support import toy

MANIFEST: dict[str, Any] = {**toy.MANIFEST, "id": "choir", "family": "choir"}


def manifests() -> list[dict[str, Any]]:
    return [MANIFEST]


class Choir(toy.Toy):
    """Requests of equal speed are sung together."""

    name = "choir"

    def company(self, request: ResolvedRequest, inputs: Mapping[str, Any]) -> tuple[Hashable, int]:
        return request.config["speed"], 1

    def load(self, plan: LoadPlan, run: Run) -> ChoirModel:
        return ChoirModel()


class ChoirModel(toy.ToyModel):
    """A prompt that begins with `until` holds the call until the file that it names is there.

    Only together: `spoil` fails, `heavy` needs too much memory, `flat` is an error of its own.
    """

    def generate_together(self, shared: Run, runs: Sequence[Run]) -> list[list[Draft] | Exception]:
        prompts = [run.inputs["prompt"] for run in runs]
        with shared.stage("sing"):
            if "abort" in prompts:
                os.abort()
            if "spoil" in prompts:
                raise RuntimeError("they do not harmonize")
            if "heavy" in prompts:
                raise MemoryError
            done = 0
            while any(not Path(p[6:]).exists() for p in prompts if p.startswith("until ")):
                done += 1
                shared.step(done)
                time.sleep(0.005)
        return [_sung(run) for run in runs]


def _sung(run: Run) -> list[Draft] | Exception:
    if run.inputs["prompt"] == "flat":
        return InvalidModelOutput("It was flat.")
    return [toy.draft(f"{run.inputs['prompt']}, together")]


def install(folder: Path) -> None:
    """Put the distribution into a folder that stands on `sys.path`."""
    info = folder / "jumar_choir-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jumar_choir\nVersion: 0.1\n")
    (info / "entry_points.txt").write_text(
        "[jumar.manifests]\nchoir = tests.support.choir:manifests\n"
        "[jumar.families]\nchoir = tests.support.choir:Choir\n"
    )

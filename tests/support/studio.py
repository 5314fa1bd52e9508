"""A model of the diffusion family with its manifest written in a test, from request to bytes.

studio = Studio(MANIFEST, folder)                         # loaded through the family
shot = studio.draw("text2image", {"prompt": "a cat"}, {"seed": 1})
shot.bytes, shot.drafts, shot.run.warnings
"""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from jumar.catalog.build import checked
from jumar.catalog.index import load_index
from jumar.catalog.manifest import Manifest, Vocabulary
from jumar.catalog.resolution import ResolvedRequest, resolve
from jumar.contracts.requests import AdapterRef, GenerateRequest
from jumar.devices import Placement, place
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.families.diffusion import Diffusion
from jumar.runtime.run import Listener, Run

COMMON = """
family: diffusion
tier: experimental
licence: none
summary: Random weights.
weights: {model: {source: none}}
adapters: [lora]
"""


INDEX = load_index()


def manifest_of(text: str) -> Manifest:
    """The manifest of `text` (YAML), with what all test models share."""
    raw = {**yaml.safe_load(COMMON), **yaml.safe_load(text)}
    return checked(raw, Vocabulary.from_dict(INDEX["vocabulary"]), name=raw["id"])


class OneModel:
    """A catalog of one model."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.presets = INDEX["presets"]

    def get(self, name: str) -> Manifest:
        return self.manifest

    def doing(self, task: str) -> list[str]:
        return [self.manifest.id]


@dataclass(frozen=True)
class Shot:
    """What came of a request."""

    drafts: list[Draft]
    run: Run

    @property
    def files(self) -> list[bytes]:
        """The bytes that each draft writes."""
        written = []
        for draft in self.drafts:
            file = io.BytesIO()
            draft.write(file)
            written.append(file.getvalue())
        return written

    @property
    def bytes(self) -> bytes:
        """Those of the only draft."""
        (only,) = self.files
        return only


class Studio:
    """A loaded model, and the way from a request to its drafts."""

    def __init__(
        self,
        manifest: Manifest,
        folder: Path,
        config: dict[str, Any] | None = None,
        *,
        task: str | None = None,
        adapters: list[AdapterRef] | None = None,
        placement: Placement | None = None,
    ) -> None:
        self.manifest = manifest
        self.load_config = config or {}
        task = task or manifest.primary_task
        known = manifest.tasks[task].config
        decided = {key: param.default for key, param in known.items() if param.load}
        plan = LoadPlan(
            manifest=manifest,
            task=task,
            config={**decided, **self.load_config},
            weights={"model": folder},
            placement=placement or place("cpu"),
            adapters=tuple(adapters or ()),
        )
        self.loading = Run(ResolvedRequest(manifest, task, "cpu", {}, dict(plan.config)), {})
        self.model = Diffusion().load(plan, self.loading)
        self.backend = plan.backend

    @property
    def pipeline(self) -> Any:
        """The pipeline that was loaded first."""
        return next(iter(self.model._pipelines.values()))

    def resolved(self, task: str, inputs: dict[str, Any], config: dict[str, Any]) -> Any:
        request = GenerateRequest(
            task=task,  # type: ignore[arg-type]
            model=self.manifest.id,
            backend="cpu",
            inputs=inputs,
            config={**self.load_config, **config},
        )
        return resolve(request, OneModel(self.manifest))  # type: ignore[arg-type]

    def draw(
        self,
        task: str,
        inputs: dict[str, Any],
        config: dict[str, Any] | None = None,
        *,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        deadline: float | None = None,
    ) -> Shot:
        run = self.run(task, inputs, config, listener=listener, cancel=cancel, deadline=deadline)
        drafts = self.model.generate(run)
        run.timeline += self.backend.timeline()
        return Shot(drafts, run)

    def draw_together(self, runs: list[Run], **shared: Any) -> list[Shot | Exception]:
        """What each of the runs gets of one call; `shared` as of the run that hears of it."""
        drawn = self.model.generate_together(Run(runs[0].request, {}, **shared), runs)
        return [
            one if isinstance(one, Exception) else Shot(one, run)
            for one, run in zip(drawn, runs, strict=True)
        ]

    def run(
        self,
        task: str,
        inputs: dict[str, Any],
        config: dict[str, Any] | None = None,
        **more: Any,
    ) -> Run:
        """The run of a request; `more` as of `Run`."""
        resolved = self.resolved(task, inputs, config or {})
        return Run(resolved, Diffusion().prepare(resolved), **more)

"""A model of the catalog on the CPU, from request to bytes.

voice = Embedded("hibari")
answer = voice.answer({"prompt": "Hello."}, seed=1)
answer.bytes, answer.drafts, answer.run.warnings
"""

from __future__ import annotations

import io
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar import catalog
from jumar.contracts.requests import GenerateRequest
from jumar.devices import place
from jumar.runtime.families import family_of
from jumar.runtime.families.base import Draft, LoadPlan
from jumar.runtime.run import Listener, Run
from jumar.runtime.weights import ensure_all


@dataclass(frozen=True)
class Answer:
    """What came of a run, and the run."""

    drafts: list[Draft]
    run: Run

    @property
    def bytes(self) -> bytes:
        return content(self.drafts[0])

    @property
    def text(self) -> str:
        return str(self.drafts[0].text)


class Embedded:
    """Weights come as for everybody: from the cache, or from the package index.

    `weights` replaces some of the manifest's by files of the test's own.
    """

    def __init__(self, name: str, weights: dict[str, Path] | None = None, **config: Any) -> None:
        self.manifest = catalog.get(name)
        self.family = family_of(self.manifest)
        self.weights = weights or ensure_all(self.manifest, converters=self.family.converters)
        resolved = catalog.resolve_load(self.manifest, self.manifest.primary_task, "cpu", config)
        plan = LoadPlan(
            manifest=self.manifest,
            task=self.manifest.primary_task,
            config=resolved.load_config,
            weights=self.weights,
            placement=place("cpu"),
        )
        self.model: Any = self.family.load(plan, Run(resolved, {}))

    def prepared(self, inputs: dict[str, Any], config: dict[str, Any]) -> Run:
        """A run whose inputs are checked; raises what the caller would get."""
        task: Any = self.manifest.primary_task
        request = GenerateRequest(
            task=task, model=self.manifest.id, backend="cpu", inputs=inputs, config=config
        )
        resolved = catalog.resolve(request)
        return Run(resolved, self.family.prepare(resolved))

    def answer(
        self,
        inputs: dict[str, Any],
        *,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        **config: Any,
    ) -> Answer:
        """One request, answered."""
        checked = self.prepared(inputs, config)
        run = Run(checked.request, checked.inputs, listener=listener, cancel=cancel)
        return Answer(self.model.generate(run), run)


def content(draft: Draft) -> bytes:
    """The file of a draft."""
    file = io.BytesIO()
    draft.write(file)
    return file.getvalue()

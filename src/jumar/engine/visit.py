"""One request on its way, and what a loaded model makes of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from jumar import catalog
from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidRequest, InvalidValue
from jumar.contracts.requests import GenerateRequest
from jumar.engine.suffix import fit_to_name, suffix_of
from jumar.runtime.artifacts import Destination
from jumar.runtime.families import family_of
from jumar.runtime.run import Listener, Run

DEFAULT_OUT = Path("jumar-out")


class Visit:
    """One request on its way: resolved, its inputs read, its place to write made sure of."""

    def __init__(
        self,
        request: GenerateRequest,
        *,
        out: str | Path | None,
        overwrite: bool,
        listener: Listener | None,
        cancel: threading.Event | None,
    ) -> None:
        self.resolved = catalog.resolve(fit_to_name(request, out))
        self.family = family_of(self.resolved.manifest)
        inputs = self.family.prepare(self.resolved)
        folder = out or self.resolved.config.get("output_dir") or DEFAULT_OUT
        self.destination = Destination(folder, suffix=suffix_of(self.resolved), overwrite=overwrite)
        timeout = self.resolved.config.get("timeout")
        self.deadline = None if timeout is None else time.monotonic() + timeout
        self.run = Run(
            self.resolved, inputs, listener=listener, cancel=cancel, deadline=self.deadline
        )

    @property
    def company(self) -> tuple[Hashable, int]:
        """A key that is equal for requests that one call may answer (None: it is answered alone),
        and how much this one counts in a call: pictures.
        """
        asked = getattr(self.family, "company", None)
        return (None, 1) if asked is None else asked(self.resolved, self.run.inputs)


class Terms:
    """What a model was loaded with, and so which requests it can answer."""

    def __init__(self, loaded: ResolvedRequest) -> None:
        self.loaded = loaded
        self._load_config = loaded.load_config

    @property
    def manifest(self) -> Manifest:
        """The manifest of the model."""
        return self.loaded.manifest

    def request(self, keys: dict[str, Any]) -> GenerateRequest:
        """Sort keywords into inputs and config by what the model's tasks have."""
        task = catalog.task_for(self.manifest, keys, self.loaded.task)
        inputs = {key: keys[key] for key in keys if key in self.manifest.tasks[task].inputs}
        config = {key: keys[key] for key in keys if key not in inputs}
        kept = {k: v for k, v in self.loaded.load_config.items() if v is not None}
        return GenerateRequest(
            task=task,
            model=self.manifest.id,
            backend=self.loaded.backend,
            inputs=inputs,
            config={**kept, **config},
        )

    def fit(self, resolved: ResolvedRequest) -> None:
        """Refuse a request for another model, or one that needs another load.

        Raises:
            InvalidRequest: naming the model or the load-time key.
        """
        if resolved.manifest.id != self.manifest.id:
            raise InvalidRequest(
                f"This is {self.manifest.id}; the request is for {resolved.manifest.id}."
            )
        for key, value in resolved.load_config.items():
            if value != self._load_config.get(key):
                raise InvalidValue(
                    f"{key}={value!r} needs another load: this model was loaded with"
                    f" {self._load_config.get(key)!r}.",
                    hint=f"jumar.load({self.manifest.id!r}, {key}={value!r})",
                    param=f"config.{key}",
                )

"""What a family of models has to offer. A family is a class under `jumar.families`.

family = Speech()
inputs = family.prepare(resolved)          # no model, no device: bad input ends here
model = family.load(plan, run)             # weights are on disk, the device is chosen
drafts = model.generate(run)               # stages and steps through `run`
model.close()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.results import ArtifactKind
from jumar.devices.base import Placement
from jumar.runtime.ladder import BackendRuntime
from jumar.runtime.run import Run

Converter = Callable[[Path, Path], None]
"""Turns a folder of fetched files (first) into a folder that can be loaded (second, empty)."""


@dataclass(frozen=True)
class Draft:
    """Something made, not yet a file: the runtime writes it atomically and names it by content.

    `write` puts the whole content into a binary file that can seek. `suffix` begins with a dot.
    """

    kind: ArtifactKind
    mime: str
    suffix: str
    write: Callable[[BinaryIO], None]
    width: int = 0
    height: int = 0
    num_frames: int | None = None
    duration_s: float | None = None
    sample_rate: int | None = None
    fps: float | None = None
    text: str | None = None


@dataclass(frozen=True)
class LoadPlan:
    """All that decides what is loaded; two equal plans load equal models.

    `weights` maps the manifest's weight names to folders or files on disk, `config` holds the
    load-time keys only (`dtype`, …). The family passes each module that computes to
    `backend.wrap_module(module, tag)`, before anything else hooks onto it.
    """

    manifest: Manifest
    task: str
    config: Mapping[str, Any]
    weights: Mapping[str, Path]
    placement: Placement
    adapters: tuple[Any, ...] = ()
    backend: BackendRuntime = field(default_factory=BackendRuntime)


class Model(Protocol):
    """A loaded model.

    One whose family has a `company` also has `generate_together(shared, runs)`: what each of the
    runs asks for, in one call that `shared` is told of. It gives a list of drafts or an error for
    each, and raises what is nobody's own: each of them is then run alone.
    """

    def generate(self, run: Run) -> list[Draft]:
        """Do what `run.request` asks for, with `run.inputs` and `run.config`."""
        ...

    def close(self) -> None:
        """Let go of the device's memory."""
        ...


class Family(Protocol):
    """One kind of model.

    One that can answer several requests in one call has a `company(request, inputs)` too: a key
    that is equal for requests that may be answered together (None: alone), and how much this one
    counts. `inputs` are those of `prepare`.
    """

    name: str
    requires: tuple[str, ...]
    """Modules that must be importable, checked before anything is fetched."""
    converters: Mapping[str, Converter]
    """For the manifest's `convert`."""

    def refuses(self, placement: Placement) -> str | None:
        """Why a model of this family cannot run there, in one sentence; None where it can."""
        ...

    def prepare(self, request: ResolvedRequest) -> dict[str, Any]:
        """Read and check the inputs: pictures opened, sound decoded.

        Raises:
            InvalidInput: naming the input (`param`) and what is wrong with it.
        """
        ...

    def load(self, plan: LoadPlan, run: Run) -> Model:
        """Load the model onto the device."""
        ...

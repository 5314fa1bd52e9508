"""The one function in which a request becomes what will run.

Each value comes from the last of: the manifest's default, the environment (for keys that name
variables), the base preset, the preset of the task, the preset of the model, the caller. A preset
never adds a key that the model does not have, and a base or task preset never sets a value that the
model's range does not hold: the default stands.
None means "not given".
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from jumar.catalog.manifest import LOADING, Manifest, Param, TaskSpec
from jumar.catalog.values import accepted
from jumar.contracts.errors import (
    InvalidInput,
    InvalidRequest,
    InvalidValue,
    UnknownKey,
    UnsupportedTask,
    did_you_mean,
    nearest,
)

if TYPE_CHECKING:
    from jumar.catalog.index import Catalog
    from jumar.contracts.requests import AdapterRef, GenerateRequest, Task

MASK = "***"
REMOTE: Final = "remote"
"""The device of models that a server runs."""


@dataclass(frozen=True)
class ResolvedRequest:
    """A request with every key decided. `backend` is the device string, `remote` for a server's
    models.

    `inputs` has the inputs that were given or have a default, `config` every key of the task's
    spec (None where nobody set one). `origins` says where each config value comes from: `default`,
    `environment JUMAR_…`, `preset fast`, `model preset fast` or `caller`; `default (…)` where a
    preset's value was left out.
    """

    manifest: Manifest
    task: str
    backend: str
    inputs: dict[str, Any]
    config: dict[str, Any]
    origins: dict[str, str] = field(default_factory=dict)
    adapters: tuple[AdapterRef, ...] = ()

    @property
    def spec(self) -> TaskSpec:
        """Inputs and config of the task that was asked for."""
        return self.manifest.tasks[self.task]

    @property
    def load_config(self) -> dict[str, Any]:
        """The part of `config` that decides what is loaded."""
        return {key: self.config[key] for key in self.spec.load_keys if key in self.config}

    @property
    def operator_keys(self) -> list[str]:
        """The keys that the caller set and that belong to the operator: a server refuses them."""
        set_by_caller = (key for key, origin in self.origins.items() if origin == "caller")
        return [key for key in set_by_caller if self.spec.config[key].operator]

    def public_config(self) -> dict[str, Any]:
        """`config` as reports may show it: secrets masked."""
        return {
            key: MASK if self.spec.config[key].secret and value is not None else value
            for key, value in self.config.items()
        }

    def cache_key(self) -> str:
        """Equal for requests that one loaded model can answer: 64 hexadecimal digits. Tasks of a
        model share its weights, unless they load others.
        """
        adapters = [(ref.kind, ref.path, ref.scale) for ref in self.adapters]
        options = {key: self.spec.options.get(key) for key in LOADING}
        loaded = repr((self.manifest.id, options, self.load_config, adapters))
        return hashlib.sha256(loaded.encode()).hexdigest()


def resolve(request: GenerateRequest, catalog: Catalog) -> ResolvedRequest:
    """Decide every key of a request.

    Raises:
        UnknownModel, UnsupportedTask: naming what there is.
        InvalidRequest: the first thing that is wrong; its hint names the others.
    """
    resolved, wrong = examine(request, catalog)
    if wrong:
        raise _first_of(wrong)
    return resolved


def examine(
    request: GenerateRequest, catalog: Catalog
) -> tuple[ResolvedRequest, list[InvalidRequest]]:
    """The request as far as it can be decided, and everything that is wrong with it.

    Raises:
        UnknownModel, UnsupportedTask: nothing else can be said of such a request.
    """
    manifest = catalog.get(request.model)
    if request.task not in manifest.tasks:
        raise unsupported(request.task, manifest, catalog)
    spec = manifest.tasks[request.task]
    wrong: list[InvalidRequest] = []
    given = _sorted_out(request, spec, wrong)
    what = f"{manifest.id} ({request.task})"
    defaults = {k: p.default for k, p in spec.inputs.items() if p.default is not None}
    inputs = {**defaults, **_checked(given["inputs"], spec.inputs, "inputs", what, wrong)}
    wrong += _missing(inputs, spec, wrong)
    caller = _checked(given["config"], spec.config, "config", what, wrong)
    environ = _from_environment(spec.config.keys() - caller.keys(), spec.config, wrong)
    config, origins = _decided(manifest, request.task, caller, environ, catalog.presets)
    adapters = tuple(request.adapters or ())
    wrong += _unfit_adapters(adapters, manifest)
    backend = _backend(manifest, request.backend, wrong)
    resolved = ResolvedRequest(manifest, request.task, backend, inputs, config, origins, adapters)
    return resolved, wrong


def resolve_load(
    manifest: Manifest, task: str, backend: str, config: dict[str, Any], catalog: Catalog
) -> ResolvedRequest:
    """Decide what is loaded where no request is there yet: load-time keys, or a preset of them.

    Raises:
        UnsupportedTask, UnknownKey, InvalidValue.
    """
    if task not in manifest.tasks:
        raise unsupported(task, manifest, catalog)
    known = {
        key: param
        for key, param in manifest.tasks[task].config.items()
        if param.load or key == "preset"
    }
    wrong: list[InvalidRequest] = []
    caller = _checked(config, known, "config", f"Loading {manifest.id}", wrong)
    environ = _from_environment(known.keys() - caller.keys(), known, wrong)
    backend = _backend(manifest, backend, wrong)
    if wrong:
        raise _first_of(wrong)
    decided, origins = _decided(manifest, task, caller, environ, catalog.presets)
    return ResolvedRequest(manifest, task, backend, {}, decided, origins)


def task_for(manifest: Manifest, keys: set[str], preferred: str) -> Task:
    """The task that somebody means who gives these inputs and config keys.

    The preferred one where it takes all of them, else the first of the model's that does; a
    picture given to a model that draws from words as well means the task with a picture.
    """
    for task in (preferred, *manifest.tasks):
        spec = manifest.tasks[task]
        needed = {key for key, param in spec.inputs.items() if param.required}
        if needed <= keys <= spec.inputs.keys() | spec.config.keys():
            return cast("Task", task)
    return cast("Task", preferred)


def _sorted_out(
    request: GenerateRequest, spec: TaskSpec, wrong: list[InvalidRequest]
) -> dict[str, dict[str, Any]]:
    """What was given, without None. OmniRT has `num_frames` and `fps` among the inputs: a config
    key that stands there is taken for what it is."""
    inputs = {key: value for key, value in request.inputs.items() if value is not None}
    config = {key: value for key, value in request.config.items() if value is not None}
    for key in [key for key in inputs if key in spec.config]:
        value = inputs.pop(key)
        if config.setdefault(key, value) != value:
            wrong.append(
                InvalidValue(
                    f"{key} is {value!r} in inputs and {config[key]!r} in config.",
                    hint="Give it once, in config.",
                    param=f"config.{key}",
                )
            )
    return {"inputs": inputs, "config": config}


def _checked(
    given: dict[str, Any],
    known: dict[str, Param],
    part: str,
    what: str,
    wrong: list[InvalidRequest],
) -> dict[str, Any]:
    """The valid values of those given; what is wrong with the others is added to `wrong`."""
    valid = {}
    for key, value in given.items():
        try:
            if key not in known:
                raise _unknown(key, known, part, what)
            valid[key] = accepted(known[key], value, f"{part}.{key}")
        except InvalidRequest as error:
            wrong.append(error)
    return valid


def _unknown(key: str, known: dict[str, Param], part: str, what: str) -> UnknownKey:
    kind = "input" if part == "inputs" else "config key"
    return UnknownKey(
        f"{what} has no {kind} {key[:100]!r}.",
        hint=_meant(key[:100], known),
        param=f"{part}.{key[:100]}",
    )


def _meant(key: str, known: dict[str, Param]) -> str | None:
    """The nearest keys, by a single word of theirs too: `stpes` means `num_inference_steps`."""
    names = {word: name for name in known for word in name.split("_")} | {n: n for n in known}
    close = list(dict.fromkeys(names[word] for word in nearest(key, names, limit=2)))
    return f"Did you mean {' or '.join(map(repr, close))}?" if close else did_you_mean(key, known)


def _missing(
    inputs: dict[str, Any], spec: TaskSpec, wrong: list[InvalidRequest]
) -> list[InvalidRequest]:
    named = {error.param for error in wrong}
    return [
        InvalidInput(f"inputs.{key} is missing.", hint=param.help, param=f"inputs.{key}")
        for key, param in spec.inputs.items()
        if param.required and key not in inputs and f"inputs.{key}" not in named
    ]


def _from_environment(
    keys: Collection[str], known: dict[str, Param], wrong: list[InvalidRequest]
) -> dict[str, tuple[Any, str]]:
    """Values and variable names of those keys whose variable is set; a bad one goes to `wrong`."""
    found = {}
    for key in sorted(key for key in keys if known[key].env):
        for variable in (name for name in known[key].variables if os.environ.get(name)):
            try:
                found[key] = accepted(known[key], os.environ[variable], f"config.{key}"), variable
            except InvalidRequest as error:
                said = f"{variable}: {error.message}"
                wrong.append(InvalidValue(said, hint=error.hint, param=error.param))
            break
    return found


def _decided(
    manifest: Manifest,
    task: str,
    caller: dict[str, Any],
    environ: dict[str, tuple[Any, str]],
    presets: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, str]]:
    known = manifest.tasks[task].config
    config = {key: param.default for key, param in known.items()}
    origins = dict.fromkeys(known, "default")
    config.update({key: value for key, (value, _) in environ.items()})
    origins.update({key: f"environment {variable}" for key, (_, variable) in environ.items()})
    for origin, layer in _layers(manifest, task, caller.get("preset"), presets):
        for key in layer.keys() & known.keys():
            try:
                config[key] = accepted(known[key], layer[key], f"config.{key}")
                origins[key] = origin
            except InvalidValue:
                origins[key] += f" ({origin} asks for {layer[key]}, which this model does not take)"
    config.update(caller)
    origins.update(dict.fromkeys(caller, "caller"))
    return config, origins


def _layers(
    manifest: Manifest, task: str, preset: str | None, presets: dict[str, Any]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a preset sets, in the order in which it is laid over the defaults."""
    if preset is None:
        return
    yield f"preset {preset}", presets[preset]["base"]
    yield f"preset {preset}", presets[preset]["tasks"].get(task, {})
    yield f"model preset {preset}", manifest.presets.get(preset, {})  # type: ignore[call-overload]


def _backend(manifest: Manifest, requested: str, wrong: list[InvalidRequest]) -> str:
    """The device string to place; `remote` for a model of a server, and for no other."""
    remote = REMOTE in manifest.backends
    if remote and requested not in ("auto", REMOTE):
        said = f"{manifest.id} runs where its server runs, which {requested!r} cannot choose."
        wrong.append(InvalidValue(said, hint="Leave --backend out.", param="backend"))
    if not remote and requested == REMOTE:
        wrong.append(InvalidValue(f"No server runs {manifest.id}.", param="backend"))
    return REMOTE if remote else requested


def _unfit_adapters(
    adapters: tuple[AdapterRef, ...], manifest: Manifest
) -> Iterator[InvalidRequest]:
    for place, adapter in enumerate(adapters):
        param = f"adapters.{place}"
        if adapter.kind not in manifest.adapters:
            yield InvalidValue(f"{manifest.id} takes no {adapter.kind} adapters.", param=param)
        if not adapter.path.strip():
            yield InvalidValue("The path of an adapter is empty.", param=f"{param}.path")
        if not math.isfinite(adapter.scale):
            yield InvalidValue("The scale of an adapter is not finite.", param=f"{param}.scale")


def unsupported(
    task: str, manifest: Manifest, catalog: Catalog, among: Collection[str] | None = None
) -> UnsupportedTask:
    """That a model does not do a task, and which do; `among` these, where others cannot be had."""
    others = [name for name in catalog.doing(task) if among is None or name in among]
    shown = ", ".join(others[:6]) + (", …" if len(others) > 6 else "")
    return UnsupportedTask(
        f"{manifest.id} does not do {task}. It does {', '.join(manifest.tasks)}.",
        hint=f"Models for {task}: {shown}." if others else f"No model here does {task}.",
        param="task",
    )


def _first_of(wrong: list[InvalidRequest]) -> InvalidRequest:
    first, *others = wrong
    if others:
        first.hint = " ".join([first.hint or "", *(f"Also: {e.message}" for e in others)]).strip()
    return first

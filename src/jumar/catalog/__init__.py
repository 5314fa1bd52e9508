"""Every model that Jumar knows, and the one way in which a request becomes what will run.

    catalog.rows()                   # all models: reads one JSON file, no pydantic, no YAML
    catalog.get("minilm").tasks      # one manifest, by id or alias
    catalog.resolve(request)         # defaults < presets < caller, every key checked

See docs/catalog.md for how to write a manifest, and how another distribution adds some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jumar.catalog.index import ModelRow, catalog

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from pathlib import Path

    from jumar.catalog.manifest import Manifest
    from jumar.catalog.resolution import ResolvedRequest
    from jumar.contracts.errors import InvalidRequest, UnsupportedTask
    from jumar.contracts.requests import GenerateRequest, Task
    from jumar.plugins import PluginFailed

__all__ = [
    "Manifest",
    "ModelRow",
    "ResolvedRequest",
    "adopt",
    "builtin_manifests",
    "failures",
    "get",
    "issues",
    "names",
    "resolve",
    "resolve_load",
    "rows",
    "task_for",
    "unsupported",
]

_TYPES = {"Manifest": "manifest", "ResolvedRequest": "resolution"}


def __getattr__(name: str) -> Any:
    """The two types load on first use, so that listing does not pay for them."""
    if name not in _TYPES:
        raise AttributeError(f"module 'jumar.catalog' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"jumar.catalog.{_TYPES[name]}"), name)


def rows(tier: str | None = None) -> list[ModelRow]:
    """All models, or those of one tier."""
    return catalog().rows(tier)


def names() -> list[str]:
    """All ids and aliases."""
    return catalog().names()


def get(name: str) -> Manifest:
    """The manifest of an id or alias.

    Raises:
        UnknownModel: naming the nearest ones.
    """
    return catalog().get(name)


def failures() -> list[PluginFailed]:
    """The plugins whose manifests could not be taken in, with the cause."""
    return catalog().failures


def resolve(request: GenerateRequest) -> ResolvedRequest:
    """Decide every key of a request.

    Raises:
        UnknownModel, UnsupportedTask: naming what there is.
        InvalidRequest: the first thing that is wrong; its hint names the others.
    """
    from jumar.catalog import resolution

    return resolution.resolve(request, catalog())


def issues(request: GenerateRequest) -> list[InvalidRequest]:
    """Everything that is wrong with a request; empty where it can be resolved.

    Raises:
        UnknownModel, UnsupportedTask: nothing else can be said of such a request.
    """
    from jumar.catalog import resolution

    return resolution.examine(request, catalog())[1]


def resolve_load(
    manifest: Manifest, task: str, backend: str, config: dict[str, Any]
) -> ResolvedRequest:
    """Decide what is loaded, from load-time keys or a preset, where no request is there yet.

    Raises:
        UnsupportedTask, UnknownKey, InvalidValue.
    """
    from jumar.catalog import resolution

    return resolution.resolve_load(manifest, task, backend, config, catalog())


def task_for(manifest: Manifest, keys: Iterable[str], preferred: str) -> Task:
    """The task that somebody means who gives these inputs and config keys."""
    from jumar.catalog import resolution

    return resolution.task_for(manifest, set(keys), preferred)


def unsupported(
    manifest: Manifest, task: str, among: Collection[str] | None = None
) -> UnsupportedTask:
    """That a model does not do a task, and which do; `among` these, where others cannot be had."""
    from jumar.catalog import resolution

    return resolution.unsupported(task, manifest, catalog(), among)


def adopt(folder: Path, *, name: str | None = None) -> Manifest:
    """A checkpoint on this machine as a model of the catalog; for whoever runs Jumar, not for
    callers of a server.

    Raises:
        InvalidInput: the folder holds no model that Jumar can read with, or its name is taken.
    """
    from jumar.catalog import folders

    return folders.adopt(folder, catalog(), name=name)


def builtin_manifests() -> list[Path]:
    """Where Jumar's own manifests lie; what an entry point of `jumar.manifests` returns."""
    from pathlib import Path

    return [Path(__file__).parent / "manifests"]

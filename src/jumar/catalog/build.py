"""Manifests as people write them, checked and joined with the vocabulary, as one index.

    python -m jumar.catalog.build        # writes _index.json; building the package does it too

The only place that needs pydantic and PyYAML, unless another distribution adds manifests.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import TypeAdapter, ValidationError

from jumar.catalog.index import HERE, INDEX, newest_source
from jumar.catalog.manifest import (
    Manifest,
    Param,
    TaskSpec,
    Tier,
    Vocabulary,
    Weights,
    expand,
)
from jumar.catalog.values import accepted
from jumar.contracts.errors import InvalidRequest, did_you_mean
from jumar.contracts.requests import TASKS

_TIERS = get_args(Tier)
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_SOURCE = re.compile(
    r"(hf|modelscope)://[\w.-]+/[\w.-]+(@[\w./-]+)?"
    r"|wheel:[\w.-]+==[\w.+!-]+#\S+"
    r"|package:[\w.-]+#\S+"
    r"|[^:]+"  # a folder
)


class ManifestError(ValueError):
    """A manifest, or the vocabulary, that cannot be used: which one and why."""


def build(folder: Path = HERE) -> dict[str, Any]:
    """The whole index of the manifests in `folder`, as plain data.

    Manifests stand in it as they were written, which keeps it small; `expand` is quick.

    Raises:
        ManifestError: naming the file and all that is wrong in it.
    """
    vocabulary_data = _read(folder / "vocabulary.yaml")
    vocabulary = _vocabulary(vocabulary_data)
    written = dict(documents([folder / "manifests"]))
    manifests = [checked(raw, vocabulary, name=name) for name, raw in written.items()]
    are_unique(manifests)
    return {
        "rows": rows_of(manifests),
        "presets": _presets(_read(folder / "presets.yaml"), vocabulary),
        "vocabulary": vocabulary_data,
        "manifests": {raw["id"]: raw for raw in written.values()},
    }


def write(path: Path = HERE / INDEX, *, folder: Path = HERE) -> dict[str, Any]:
    """Build the index and write it atomically; equal manifests give equal bytes.

    The file's time is that of the newest source, so that a later edit shows.
    """
    newest = newest_source(folder)
    index = build(folder)
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
        Path(temporary).chmod(0o644)
        os.utime(temporary, ns=(newest, newest))
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return index


def documents(
    sources: Iterable[str | Path | Mapping[str, Any]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and content of each manifest in folders of YAML files, single files, and mappings.

    Raises:
        ManifestError: a file that is no YAML mapping, or not named after its model.
    """
    for source in sources:
        if isinstance(source, Mapping):
            yield str(source.get("id")), dict(source)
            continue
        path = Path(source)
        for file in sorted(path.glob("*.yaml")) if path.is_dir() else [path]:
            raw = _read(file)
            if raw.get("id") != file.stem:
                raise ManifestError(f"{file.name}: its id is {raw.get('id')!r}")
            yield file.name, raw


def checked(raw: dict[str, Any], vocabulary: Vocabulary, *, name: str) -> Manifest:
    """One manifest as written, joined with the vocabulary and checked.

    Raises:
        ManifestError: naming everything that is wrong.
    """
    try:
        expanded = expand(raw, vocabulary)
        _schema(Manifest).validate_python(expanded)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        raise ManifestError(f"{name}: " + "; ".join(lines)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestError(f"{name}: {type(error).__name__}: {error}") from error
    manifest = Manifest.from_dict(expanded)
    if problems := list(_problems(manifest)):
        raise ManifestError(f"{name}: " + "; ".join(problems))
    return manifest


def rows_of(manifests: Iterable[Manifest]) -> list[dict[str, Any]]:
    """What `jumar models` prints, one mapping per model: by tier, then by id."""
    ordered = sorted(manifests, key=lambda manifest: (_TIERS.index(manifest.tier), manifest.id))
    return [
        {
            "id": manifest.id,
            "aliases": list(manifest.aliases),
            "tasks": list(manifest.tasks),
            "tier": manifest.tier,
            "family": manifest.family,
            "summary": manifest.summary,
            "backends": {kind: known.status for kind, known in manifest.backends.items()},
            "memory_gb": manifest.resources.memory_gb,
            "download_mb": manifest.resources.download_mb,
        }
        for manifest in ordered
    ]


def _problems(manifest: Manifest) -> Iterator[str]:
    """What the types alone do not say."""
    if not _ID.fullmatch(manifest.id):
        yield f"id {manifest.id!r} has other signs than a-z, 0-9, '.', '_', '-'"
    if not manifest.tasks:
        yield "it has no task"
    for task, spec in manifest.tasks.items():
        yield from _task_problems(task, spec)
    for name, weights in manifest.weights.items():
        yield from (f"weights {name}: {why}" for why in _weight_problems(weights))
    for preset, values in manifest.presets.items():
        yield from (f"preset {preset}: {why}" for why in _misfits(manifest, values))


def _task_problems(task: str, spec: TaskSpec) -> Iterator[str]:
    if task not in TASKS:
        yield f"unknown task {task!r}: {did_you_mean(task, TASKS)}"
    for key, param in {**spec.inputs, **spec.config}.items():
        if param.default is not None and (why := _refusal(param, param.default)):
            yield f"{task}: default of {key} {why}"


def _weight_problems(weights: Weights) -> Iterator[str]:
    if not _SOURCE.fullmatch(weights.source):
        yield f"{weights.source!r} is no source"
    for file, digest in weights.files.items():
        if not _SHA256.fullmatch(digest):
            yield f"the digest of {file} is no sha256"


def _misfits(manifest: Manifest, values: dict[str, Any]) -> Iterator[str]:
    for key, value in values.items():
        having = [spec.config[key] for spec in manifest.tasks.values() if key in spec.config]
        if not having:
            yield f"the model has no config key {key!r}"
        yield from (f"{key} {why}" for param in having if (why := _refusal(param, value)))


def _refusal(param: Param, value: Any) -> str | None:
    try:
        accepted(replace(param, required=False), value, "config.")
    except InvalidRequest as error:
        return error.message.removeprefix("config. ")
    return None


def are_unique(manifests: Iterable[Manifest]) -> None:
    """Raise ManifestError where two models share a name."""
    owners: dict[str, str] = {}
    for manifest in manifests:
        for name in (manifest.id, *manifest.aliases):
            if name in owners:
                raise ManifestError(f"{name!r} names both {owners[name]} and {manifest.id}")
            owners[name] = manifest.id


def _presets(raw: dict[str, Any], vocabulary: Vocabulary) -> dict[str, Any]:
    for preset, layers in raw.items():
        for values in (layers["base"], *layers["tasks"].values()):
            for key, value in values.items():
                if key not in vocabulary.config:
                    raise ManifestError(f"presets.yaml: {preset}: no config key {key!r}")
                if why := _refusal(vocabulary.config[key], value):
                    raise ManifestError(f"presets.yaml: {preset}: {key} {why}")
    return raw


def _vocabulary(raw: dict[str, Any]) -> Vocabulary:
    try:
        _schema(Vocabulary).validate_python(raw)
    except ValidationError as error:
        raise ManifestError(f"vocabulary.yaml: {error}") from None
    return Vocabulary.from_dict(raw)


@cache
def _schema(kind: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


class _Loader(yaml.SafeLoader):
    """YAML in which a key that stands twice in a mapping is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := {str(key) for key in keys if keys.count(key) > 1}:
            raise yaml.constructor.ConstructorError(
                None, None, f"{', '.join(sorted(twice))} stands twice", node.start_mark
            )
        return super().construct_mapping(node, deep)


def _read(path: Path) -> dict[str, Any]:
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ManifestError(f"{path.name}: {error}") from error
    if not isinstance(data, dict):
        raise ManifestError(f"{path.name}: no mapping")
    return data


if __name__ == "__main__":
    import sys

    sys.stdout.write(f"{len(write()['manifests'])} manifests in {HERE / INDEX}\n")

"""The catalog: the built-in index, and the manifests that other distributions add.

Listing reads one JSON file. In a source checkout the index is built anew where a manifest was
edited since; an installed package has no reason to look.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jumar.contracts.errors import JumarError, UnknownModel, did_you_mean
from jumar.plugins import Plugin, PluginFailed, installed, load

if TYPE_CHECKING:
    from jumar.catalog.manifest import Manifest

HERE = Path(__file__).parent
INDEX = "_index.json"
_BESIDE = ("vocabulary.yaml", "presets.yaml")
_CODE = ("build.py", "manifest.py", "values.py")
GROUP = "jumar.manifests"


class ModelRow(NamedTuple):
    """One line of `jumar models`. `backends` maps a device kind to what is known of it there."""

    id: str
    aliases: tuple[str, ...]
    tasks: tuple[str, ...]
    tier: str
    family: str
    summary: str
    backends: dict[str, str]
    memory_gb: float
    download_mb: float
    distribution: str = "jumar"


class Catalog:
    """All models that are known here, by id and alias."""

    def __init__(self, index: dict[str, Any]) -> None:
        self.presets: dict[str, Any] = index["presets"]
        self.failures: list[PluginFailed] = []
        self._vocabulary = index["vocabulary"]
        self._written: dict[str, Any] = index["manifests"]
        self._manifests: dict[str, Manifest] = {}
        self._rows: list[ModelRow] = []
        self._owners: dict[str, ModelRow] = {}
        for row in index["rows"]:
            self._list(row, "jumar")

    def rows(self, tier: str | None = None) -> list[ModelRow]:
        """All models, or those of one tier: Jumar's own first, by tier and id."""
        return [row for row in self._rows if tier is None or row.tier == tier]

    def names(self) -> list[str]:
        """All ids and aliases."""
        return sorted(self._owners)

    def get(self, name: str) -> Manifest:
        """The manifest of an id or alias.

        Raises:
            UnknownModel: naming the nearest ones.
        """
        if name not in self._owners:
            hints = [did_you_mean(name[:200], self._owners), *map(str, self.failures)]
            raise UnknownModel(
                f"Unknown model {name[:200]!r}.",
                hint=" ".join(hint for hint in hints if hint),
                param="model",
            )
        model = self._owners[name].id
        if model not in self._manifests:
            from jumar.catalog.manifest import Manifest, Vocabulary, expand

            vocabulary = Vocabulary.from_dict(self._vocabulary)
            self._manifests[model] = Manifest.from_dict(expand(self._written[model], vocabulary))
        return self._manifests[model]

    def doing(self, task: str) -> list[str]:
        """The ids of the models that do a task."""
        return [row.id for row in self._rows if task in row.tasks]

    def add(self, plugin: Plugin) -> None:
        """Take in the manifests of another distribution, all of them or, if one fails, none.

        A failure is kept in `failures`, and told where a model is not found.
        """
        try:
            self._take(load(plugin)(), plugin.distribution)
        except PluginFailed as failed:
            self.failures.append(failed)
        except Exception as error:  # noqa: BLE001  (foreign code; the cause is kept and shown)
            unusable = PluginFailed(plugin)
            unusable.__cause__ = error
            self.failures.append(unusable)

    def add_own(self, written: dict[str, Any]) -> None:
        """Take in a manifest that this process made.

        Raises:
            ValueError: its name is another model's, or the manifest is wrong.
        """
        self._take([written], "here")

    def _take(self, written: Iterable[Any], distribution: str) -> None:
        from jumar.catalog.build import are_unique, checked, documents, rows_of
        from jumar.catalog.manifest import Vocabulary

        vocabulary = Vocabulary.from_dict(self._vocabulary)
        added = [checked(raw, vocabulary, name=name) for name, raw in documents(written)]
        are_unique(added)
        for manifest in added:
            for name in (manifest.id, *manifest.aliases):
                if name in self._owners:
                    raise ValueError(
                        f"{name!r} of {distribution} is already the name of"
                        f" {self._owners[name].id} of {self._owners[name].distribution}"
                    )
        for row in rows_of(added):
            self._list(row, distribution)
        self._manifests.update({manifest.id: manifest for manifest in added})

    def _list(self, row: dict[str, Any], distribution: str) -> None:
        listed = ModelRow(
            **{
                **row,
                "aliases": tuple(row["aliases"]),
                "tasks": tuple(row["tasks"]),
                "distribution": distribution,
            }
        )
        self._rows.append(listed)
        self._owners.update(dict.fromkeys((listed.id, *listed.aliases), listed))


@cache
def catalog() -> Catalog:
    """The catalog of this process."""
    known = Catalog(load_index())
    for plugin in installed(GROUP, foreign_only=True):
        known.add(plugin)
    return known


def load_index(folder: Path = HERE) -> dict[str, Any]:
    """The built index; in a checkout whose manifests were edited since, a new one."""
    path = folder / INDEX
    if not path.exists() or (
        _is_checkout(folder) and newest_source(folder) > path.stat().st_mtime_ns
    ):
        return _rebuilt(folder)
    index: dict[str, Any] = json.loads(path.read_bytes())
    return index


def newest_source(folder: Path = HERE) -> int:
    """When the last of the files that the index is made from was changed, in ns.

    A file that went away shows in the time of its folder.
    """
    manifests = folder / "manifests"
    sources = [manifests, *manifests.iterdir(), *(folder / name for name in _BESIDE)]
    sources += [HERE / name for name in _CODE]
    return max(source.stat().st_mtime_ns for source in sources)


def _is_checkout(folder: Path) -> bool:
    return (folder.parents[2] / "hatch_build.py").exists()


def _rebuilt(folder: Path) -> dict[str, Any]:
    from jumar.catalog import build

    try:
        return build.write(folder / INDEX, folder=folder)
    except build.ManifestError as error:
        raise JumarError(
            "The catalog cannot be built.", hint="Correct the manifest that the cause names."
        ) from error
    except OSError:
        return build.build(folder)  # a folder that cannot be written: built anew in each process

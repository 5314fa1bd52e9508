"""Parts that other distributions add through entry points; the built-in parts use the same groups.

    for plugin in installed("jumar.manifests"): ...     # names only, nothing imported
    part = load(plugin)                                 # imports it, or says why not

`importlib.metadata` takes longer to import than `jumar models` takes to run, so it is loaded only
where a quick look at the `entry_points.txt` files on `sys.path` finds another distribution.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

GROUPS = (
    "jumar.accelerators",
    "jumar.families",
    "jumar.hosts",
    "jumar.manifests",
    "jumar.operator_providers",
)


@dataclass(frozen=True)
class Plugin:
    """One entry point: `value` is `module:attribute`."""

    group: str
    name: str
    value: str
    distribution: str
    version: str

    @property
    def built_in(self) -> bool:
        """True for Jumar's own parts."""
        return self.distribution == "jumar"


class PluginFailed(ImportError):
    """A plugin that is installed and cannot be imported; the cause says why."""

    def __init__(self, plugin: Plugin) -> None:
        super().__init__(
            f"{plugin.group} {plugin.name!r} ({plugin.value}) of {plugin.distribution}"
            f" {plugin.version} cannot be loaded"
        )
        self.plugin = plugin


def installed(group: str, *, foreign_only: bool = False) -> list[Plugin]:
    """The plugins of a group, by name; with `foreign_only` those that are not Jumar's."""
    if foreign_only and not _somebody_else_names(group):
        return []
    from importlib.metadata import entry_points

    found = []
    for point in entry_points(group=group):
        dist = point.dist
        name, version = (dist.name, dist.version) if dist is not None else ("?", "?")
        found.append(Plugin(group, point.name, point.value, name, version))
    # A distribution seen twice on sys.path (an editable install and its source) counts once.
    unique = {(plugin.name, plugin.value): plugin for plugin in found}
    chosen = (plugin for plugin in unique.values() if not (foreign_only and plugin.built_in))
    return sorted(chosen, key=lambda plugin: plugin.name)


def load(plugin: Plugin) -> Any:
    """Import what the plugin names.

    Raises:
        PluginFailed: whatever went wrong while it was imported, as the cause.
    """
    from importlib import import_module

    module, _, attribute = plugin.value.partition(":")
    try:
        part: Any = import_module(module)
        for name in filter(None, attribute.split(".")):
            part = getattr(part, name)
    except Exception as error:
        raise PluginFailed(plugin) from error
    return part


def _somebody_else_names(group: str) -> bool:
    """Whether an `entry_points.txt` on `sys.path` outside Jumar's has a section for `group`."""
    section = f"[{group}]".encode()
    return any(section in declared for declared in _declared_by_others())


def _declared_by_others() -> Iterator[bytes]:
    # Not pathlib: looking through a hundred distributions must cost 2 ms, not 6.
    for folder in dict.fromkeys(sys.path):
        try:
            names = [entry.name for entry in os.scandir(folder or ".")]
        except OSError:  # a zip file, or a folder that is gone
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")) and not name.startswith("jumar-"):
                try:
                    with open(f"{folder or '.'}/{name}/entry_points.txt", "rb") as file:  # noqa: PTH123
                        yield file.read()
                except OSError:  # most distributions have none
                    continue

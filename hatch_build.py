"""Builds the catalog's index into the package, in editable installs too."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CatalogIndex(BuildHookInterface):  # type: ignore[type-arg]
    """Checks all manifests; a wrong one stops the build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write `src/jumar/catalog/_index.json`, which pyproject.toml lists as an artifact."""
        sys.path.insert(0, str(Path(self.root) / "src"))
        from jumar.catalog.build import write

        write()

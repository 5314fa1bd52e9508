"""A file or folder of this machine, used where it stands."""

from __future__ import annotations

from pathlib import Path

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import InvalidValue, WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job


class Folder:
    """`/srv/models/wan`, `~/models/wan`, or relative to the folder of a plugin's manifest."""

    offline_switches: tuple[str, ...] = ()

    def __init__(self, weights: Weights, locator: str, base: Path | None) -> None:
        self.text = weights.source
        path = Path(locator).expanduser()
        if not path.is_absolute():
            if base is None:
                raise InvalidValue(
                    f"The weights' source {locator!r} is a relative path, and this manifest has no "
                    "folder that it could be relative to.",
                    hint="Write an absolute path, or one that begins with ~.",
                    param="source",
                )
            path = base / path
        self._path = path

    def here(self, *, offline: bool) -> Path | None:
        """The path, where it exists."""
        return self._path if self._path.exists() else None

    def fetch(self, into: Path, job: Job) -> Fetched:
        """Never possible: what is not here cannot be fetched from anywhere."""
        raise WeightsUnavailable(
            f"There is no file or folder {str(self._path)!r}.",
            hint=f"Copy the weights there, or name another source than {self.text!r}.",
        )

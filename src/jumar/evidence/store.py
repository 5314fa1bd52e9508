"""A folder of evidence: one JSON file per record, named by its content, never overwritten."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from jumar.contracts.errors import InvalidInput, OutputFailed
from jumar.evidence.records import Evidence


def default_folder() -> Path:
    """`JUMAR_EVIDENCE`, else `evidence` in the user's data folder."""
    if named := os.environ.get("JUMAR_EVIDENCE"):
        return Path(named).expanduser()
    from platformdirs import user_data_path

    return user_data_path("jumar") / "evidence"


class Store:
    """Evidence of one machine or one fleet: folders can be copied together.

    Raises (all methods):
        InvalidInput: a file of the folder is not a record; it is named.
        OutputFailed: the folder cannot be written.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = Path(folder) if folder is not None else default_folder()

    def ready(self) -> Store:
        """The store itself, once it is seen that records can be added: before hours of work."""
        probe = self.folder / f".probe.{os.getpid()}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise self._unwritable(error) from error
        return self

    def add(self, evidence: Evidence) -> Path:
        """Write a record; the same one twice is written once. Gives its path."""
        path = self.folder / f"{evidence.id}.json"
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            fresh.write_text(evidence.model_dump_json(indent=1) + "\n", encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            raise self._unwritable(error) from error
        return path

    def _unwritable(self, error: OSError) -> OutputFailed:
        return OutputFailed(f"Evidence cannot be written to {self.folder}: {error}")

    def __iter__(self) -> Iterator[Evidence]:
        """All records, oldest first."""
        found = [_read(path) for path in sorted(self.folder.glob("[!.]*.json"))]
        return iter(sorted(found, key=lambda evidence: evidence.at))

    def get(self, prefix: str) -> Evidence:
        """The one record whose id begins with `prefix`."""
        found = sorted(self.folder.glob(f"{prefix}*.json")) if prefix.isalnum() else []
        if len(found) != 1:
            many = "several records" if found else "no record"
            raise InvalidInput(f"There is {many} {prefix!r} in {self.folder}.", param="id")
        return _read(found[0])


def _read(path: Path) -> Evidence:
    try:
        return Evidence.model_validate_json(path.read_bytes())
    except ValidationError as error:
        found = error.errors(include_url=False)[0]
        why = ": ".join(filter(None, [".".join(map(str, found["loc"])), found["msg"]]))
        raise _damaged(path, why) from error
    except OSError as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> InvalidInput:
    return InvalidInput(
        f"{path} is not a record of evidence: {why}",
        hint="Move it away: what it said is in no quarantine then.",
    )

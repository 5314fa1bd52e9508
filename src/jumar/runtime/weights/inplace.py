"""Files that stay where they are: checked once, and again when their size or time has changed."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from jumar.catalog.manifest import Weights
from jumar.runtime.weights.base import Job
from jumar.runtime.weights.digests import compare, hash_all, require


def check_in_place(path: Path, weights: Weights, notes: Path, job: Job, *, verify: bool) -> Path:
    """`path`, once the files that the manifest names are known to be the right ones.

    A note in the folder `notes` remembers the size, time and digest of files found right, so
    that large ones are not hashed at each start.

    Raises:
        WeightsUnavailable: files are missing; they are named.
        DigestMismatch: a file is not the one that the manifest names.
    """
    require(path, weights.files, weights.source)
    if not weights.files:
        return path
    note = notes / f"in-place-{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}.json"
    state = _state(path, weights)
    if verify or _read(note) != state:
        got = hash_all(path, weights.files, job)
        compare(weights.files, got, weights.source, by="the manifest")
        with suppress(OSError):  # where the cache cannot be written, the next start hashes again
            note.parent.mkdir(parents=True, exist_ok=True)
            note.write_text(json.dumps(state), encoding="utf-8")
    return path


def _state(path: Path, weights: Weights) -> dict[str, list[str | int]]:
    folder = path.parent if path.is_file() else path
    stats = {name: (folder / name).stat() for name in weights.files}
    return {
        name: [weights.files[name], stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()
    }


def _read(note: Path) -> object:
    try:
        return json.loads(note.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None

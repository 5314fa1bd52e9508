"""The cache folder: one place per set of weights, whole or absent.

<cache>/weights/<source>-<key>/complete.json     what the files are, written last
                               files/…           ready to load
                <source>-<key>.part/             parts of a fetch that was stopped: resumed
                <source>-<key>.lock              held by the process that fetches
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import DigestMismatch, WeightsUnavailable
from jumar.runtime.weights.base import Job
from jumar.runtime.weights.digests import hash_all, sizes

MARKER = "complete.json"
FULL = (errno.ENOSPC, errno.EDQUOT)
WAIT_S = 0.1
"""Between two looks at a lock that another process holds."""


def cache_root(cache: Path | None = None) -> Path:
    """`cache`, else the environment's JUMAR_CACHE, else the user's cache folder."""
    if cache is not None:
        return cache
    if named := os.environ.get("JUMAR_CACHE"):
        return Path(named).expanduser().absolute()
    from platformdirs import user_cache_path

    return user_cache_path("jumar")


@dataclass(frozen=True)
class Entry:
    """One file as it was when it was checked."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Marker:
    """`complete.json`: `entry` is what to load, relative to `files/` ("" for all of it)."""

    source: str
    entry: str
    time: str
    files: dict[str, Entry]


class Slot:
    """The place of one set of weights. Equal weights (source, digests, converter) share it."""

    def __init__(self, root: Path, weights: Weights) -> None:
        self.source = weights.source
        identity = json.dumps(
            [weights.source, sorted(weights.files.items()), weights.include, weights.convert]
        )
        key = hashlib.sha256(identity.encode()).hexdigest()[:12]
        readable = re.sub(r"[^A-Za-z0-9._=-]+", "-", weights.source)[:80].strip("-.")
        self.folder = root / "weights" / f"{readable}-{key}"
        self.part = self.folder.with_name(self.folder.name + ".part")

    @property
    def files(self) -> Path:
        """The folder of the ready files."""
        return self.folder / "files"

    def marker(self) -> Marker | None:
        """What is complete here, or None.

        Raises:
            WeightsUnavailable: the marker is there and is not readable.
        """
        path = self.folder / MARKER
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
            files = {name: Entry(**entry) for name, entry in raw.pop("files").items()}
            return Marker(**raw, files=files)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            raise WeightsUnavailable(
                f"{str(path)!r} cannot be read, so nobody knows what the files beside it are.",
                hint=self._renew,
            ) from error

    def damaged(self, marker: Marker) -> list[str]:
        """The files that are missing or have another size than when they were checked."""
        there = sizes(self.files)
        return [name for name, entry in marker.files.items() if there.get(name) != entry.size]

    def open(self, marker: Marker, job: Job, *, verify: bool) -> Path:
        """The path to load; sizes are compared, with `verify` all digests too.

        Raises:
            DigestMismatch: a file has changed on disk; it is named and nothing is loaded.
        """
        changed = self.damaged(marker)
        if verify and not changed:
            got = hash_all(self.files, marker.files, job)
            changed = [name for name, entry in marker.files.items() if got[name] != entry.sha256]
        if changed:
            entry = marker.files[changed[0]]
            raise DigestMismatch(
                f"{str(self.files / changed[0])!r} of {self.source} has changed since it was "
                f"checked, or is gone: it had {entry.size} bytes and sha256 {entry.sha256}.",
                hint=self._renew,
                param=changed[0],
            )
        return self.files / marker.entry

    def commit(self, files: Path, entry: str, digests: Mapping[str, str]) -> Marker:
        """Make a folder of checked files the content of this slot, in one rename."""
        there = sizes(files)
        marker = Marker(
            source=self.source,
            entry=entry,
            time=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            files={name: Entry(there[name], digests[name]) for name in sorted(there)},
        )
        ready = self.part / "ready"
        for rest in (ready, self.folder):  # a folder without a marker is of no use to anybody
            shutil.rmtree(rest, ignore_errors=True)
        ready.mkdir()
        files.rename(ready / "files")
        (ready / MARKER).write_text(json.dumps(asdict(marker), indent=1), encoding="utf-8")
        ready.rename(self.folder)
        shutil.rmtree(self.part, ignore_errors=True)
        return marker

    @contextmanager
    def locked(self, job: Job) -> Iterator[None]:
        """Hold the right to fetch; where another process has it, say so and wait."""
        import fcntl

        with self.folder.with_name(self.folder.name + ".lock").open("a") as lock:
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    job.tell(f"waiting for another process that fetches {self.source}", 0)
                    time.sleep(WAIT_S)
            yield

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turn what the file system refuses into an error that says what to do about it."""
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            yield
        except ConnectionError:
            raise  # of the listener (a closed pipe), never of a file
        except OSError as error:
            full = error.errno in FULL
            raise WeightsUnavailable(
                f"{self.source} cannot be put into the cache {str(self.folder.parent)!r}: "
                f"{error.strerror or error}.",
                hint="Free some space, or set JUMAR_CACHE to a folder on a larger disk."
                if full
                else "Set JUMAR_CACHE to a folder that can be written.",
            ) from error

    @property
    def _renew(self) -> str:
        return f"Remove the folder {str(self.folder)!r} and pull the model again."

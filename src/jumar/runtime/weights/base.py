"""What a source of weights has to offer, and what a fetch tells while it runs.

source = source_of(weights)
source.here()                   # a path on this machine, or None
source.fetch(folder, job)       # brings the files into `folder`, says what they should be
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Protocol

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import Cancelled


@dataclass(frozen=True)
class Progress:
    """How far a step is, in bytes; `total_bytes` is None where nobody knows it yet."""

    what: str
    done_bytes: int
    total_bytes: int | None


Listener = Callable[[Progress], None]

TELL_S = 0.1
"""Between two reports of one step: bytes come in thousands of pieces."""


class Job:
    """One call of `ensure`: who listens, and whether it is time to stop."""

    def __init__(
        self, listener: Listener | None = None, cancel: threading.Event | None = None
    ) -> None:
        self._listener = listener
        self._cancel = cancel
        self._what = ""
        self._told = 0.0

    def tell(self, what: str, done_bytes: int, total_bytes: int | None = None) -> None:
        """Report a step, and raise Cancelled where the caller has stopped.

        The listener hears each step begin and end, and no more than `TELL_S` allows between.
        """
        self.check()
        now = time.monotonic()
        if self._listener is None or (
            what == self._what and done_bytes != total_bytes and now < self._told + TELL_S
        ):
            return
        self._what, self._told = what, now
        self._listener(Progress(what, done_bytes, total_bytes))

    def counter(self, what: str, before: int, total_bytes: int | None) -> Callable[[int], None]:
        """`tell` for one of several files: hears the bytes of this one, adds those before it."""
        return lambda done: self.tell(what, before + done, total_bytes)

    def check(self) -> None:
        """Raise Cancelled where the caller has stopped."""
        if self._cancel is not None and self._cancel.is_set():
            raise Cancelled("Stopped by the caller while weights were being fetched.")


@dataclass(frozen=True)
class Fetched:
    """What a fetch brought: the file or folder to use, relative to the folder that it was given
    ("" for all of it), and the sha256 that the origin itself states, by relative path.
    """

    entry: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)


class Source(Protocol):
    """One place that weights come from."""

    text: str
    """As the manifest writes it."""
    offline_switches: tuple[str, ...]
    """Environment variables that forbid fetching; empty where nothing is ever fetched."""

    def __init__(self, weights: Weights, locator: str, base: Path | None) -> None:
        """`locator` is the text after the scheme; `base` the folder of a plugin's manifest.

        Raises:
            InvalidValue: the locator has not the form that this scheme has.
        """
        ...

    def here(self, *, offline: bool) -> Path | None:
        """The file or folder, where this machine has it outside the cache.

        Raises:
            WeightsUnavailable: `offline`, and only a part is here; the missing files are named.
        """
        ...

    def fetch(self, into: Path, job: Job) -> Fetched:
        """Bring the files into the folder `into`, which may hold parts of an earlier try.

        Raises:
            WeightsUnavailable: what is missing or what the other side answered.
            DependencyMissing: a package that the fetch needs.
        """
        ...


def selected(paths: Iterable[str], patterns: tuple[str, ...]) -> list[str]:
    """The paths that match one of the glob patterns; all of them where there is no pattern."""
    if not patterns:
        return sorted(paths)
    return sorted(p for p in paths if any(fnmatchcase(p, pattern) for pattern in patterns))


def is_inside(name: str) -> bool:
    """Whether a relative path, as an archive or a listing states it, stays in its folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\\" not in name


def keep_only(folder: Path, names: Iterable[str]) -> None:
    """Remove what else lies in `folder`: left by an earlier try at another list of files."""
    wanted = {folder / name for name in names}
    for path in folder.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()

"""From a draft to a file: written whole or not at all, named by content, never over another."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO
from uuid import uuid4

from jumar.contracts.errors import InvalidValue, OutputFailed
from jumar.contracts.results import Artifact
from jumar.runtime.families.base import Draft

_CHUNK = 1 << 20


class Destination:
    """Where a run's files go: a folder, or for the first artifact a file that the caller named.

    Made before the run, so that a folder that cannot be written, or a name that does not fit what
    the run will make (`suffix`), costs no work.

    Raises:
        InvalidValue: the named file has another suffix, or the name is no UTF-8.
        OutputFailed: the folder cannot be made or written, or the named file exists.
    """

    def __init__(self, path: str | Path, *, suffix: str, overwrite: bool = False) -> None:
        path = (path if isinstance(path, Path) else Path(path)).expanduser()
        if not _is_text(path):
            raise InvalidValue(
                f"{str(path)!r} is no UTF-8, and a report names its files.",
                hint="Choose another name with --out.",
                param="out",
            )
        named = bool(path.suffix) and not path.is_dir()
        self.file = path if named else None
        self.folder = path.parent if named else path
        if self.file is not None and self.file.suffix != suffix:
            raise InvalidValue(
                f"{self.file.name} ends in {self.file.suffix}; this run makes {suffix}.",
                hint=f"Name it {self.file.with_suffix(suffix).name}, or a folder.",
                param="out",
            )
        self._overwrite = overwrite
        self._token = uuid4().hex  # also of the copy that a worker gets
        if self.file is not None and self.file.exists() and not overwrite:
            raise OutputFailed(
                f"{self.file} exists.", hint="Name another file, or say --overwrite.", param="out"
            )
        if not _can_write(self.folder):
            with _told(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self.folder):
                    pass

    def store(self, drafts: list[Draft], stem: str) -> Iterator[Artifact]:
        """Write the drafts one by one: `<stem>-<sha256, 16 digits><suffix>`, or the named file."""
        for number, draft in enumerate(drafts):
            yield self._store_one(draft, number, stem)

    def write_text(self, name: str, text: str) -> None:
        """Write a file whose name nobody else has (a report, named by its run id).

        Each run does: names as text, since objects of them take longer than the file system.
        """
        target, temporary = f"{self.folder}/{name}", self._part()
        try:
            with _told(self.folder):
                _write(temporary, text.encode())
                os.replace(temporary, target)  # noqa: PTH105
        except OutputFailed:
            Path(temporary).unlink(missing_ok=True)
            raise

    def sweep(self) -> None:
        """Take away what a worker was writing when it was ended."""
        mine = f".jumar-{self._token}-"
        for left in self.folder.iterdir() if self.folder.is_dir() else ():
            if left.name.startswith(mine):
                left.unlink(missing_ok=True)

    def _store_one(self, draft: Draft, number: int, stem: str) -> Artifact:
        with self._fresh(draft.write) as (temporary, digest, size):
            target = self._target(draft, number, stem, digest)
            if self.file is not None or not _is_there(target, digest):
                temporary.replace(target)
        return Artifact(
            kind=draft.kind,
            path=str(target),
            mime=draft.mime,
            width=draft.width,
            height=draft.height,
            num_frames=draft.num_frames,
            sha256=digest,
            size_bytes=size,
            duration_s=draft.duration_s,
            sample_rate=draft.sample_rate,
            fps=draft.fps,
            text=draft.text,
        )

    def _target(self, draft: Draft, number: int, stem: str, digest: str) -> Path:
        """The named file (`-2`, `-3` for further artifacts), or a name that says the content."""
        if self.file is None:
            return self.folder / f"{stem}-{digest[:16]}{draft.suffix}"
        file = self.file
        if number:
            file = file.with_stem(f"{file.stem}-{number + 1}")
        if file.exists() and not self._overwrite:
            raise OutputFailed(f"{file} exists.", hint="Say --overwrite.", param="out")
        return file

    @contextmanager
    def _fresh(self, write: Callable[[BinaryIO], object]) -> Iterator[tuple[Path, str, int]]:
        """A complete file beside its target: path, sha256, bytes; gone if not moved away."""
        temporary = Path(self._part())
        try:
            with _told(self.folder):
                with temporary.open("x+b") as file:
                    write(file)
                    file.flush()
                    file.seek(0)
                    digest, size = _digest(file)
                yield temporary, digest, size
        finally:
            temporary.unlink(missing_ok=True)

    def _part(self) -> str:
        return f"{self.folder}/.jumar-{self._token}-{uuid4().hex}.part"


def _is_text(path: Path) -> bool:
    try:
        return bool(str(path).encode())
    except (
        UnicodeEncodeError
    ):  # bytes of the command line that are no UTF-8 come as half characters
        return False


def _write(new: str, data: bytes) -> None:
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)


def _can_write(folder: Path) -> bool:
    """Whether a file that has no name could be made there. False also where the folder is not there
    yet, or this system or file system has no such files.
    """
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except (AttributeError, OSError):
        return False
    return True


def _is_there(target: Path, digest: str) -> bool:
    """Whether a file named by content has that content; it is as new then as if written again.

    Renaming over it would do, and ext4 writes the file to the disk before that: milliseconds.
    """
    try:
        with target.open("rb") as file:
            if _digest(file)[0] != digest:
                return False
        os.utime(target)
    except OSError:  # there is none; what else is wrong, the renaming meets again
        return False
    return True


def _digest(file: BinaryIO) -> tuple[str, int]:
    sha, size = hashlib.sha256(), 0
    while chunk := file.read(_CHUNK):
        sha.update(chunk)
        size += len(chunk)
    return sha.hexdigest(), size


@contextmanager
def _told(folder: Path) -> Iterator[None]:
    """Turn the operating system's refusals into OutputFailed."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        raise OutputFailed(
            f"Cannot write to {folder}: {'the disk is full' if full else error.strerror or error}.",
            hint="Choose another folder with --out.",
            param="out",
        ) from error

"""A recorded machine: a folder, the same as a tar archive, or one saved output of ``npu-smi info``.

::

    host.json        what is no file: process, disks, holders, listeners, failures, …   (optional)
    paths.json       what stands where, beyond files/: nodes, folders, links, gaps      (optional)
    environ.txt      the environment, as ``env`` prints it ("environ" of host.json wins)
    files/etc/…      contents of files, at their resolved paths
    commands/…       what programs printed; a file's name is the command line + ".txt"
    listings/dev.txt ``ls -l /dev`` (or ``ls /dev``), and so for any other folder

`docs/host.md` describes every key. A question that the record does not answer raises
`NotRecordedError`, unless ``host.json`` says ``"complete": true``: then what is not there did not
exist.
"""

from __future__ import annotations

import codecs
import posixpath
import tarfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from jumar.contracts.errors import InvalidInput
from jumar.host.facts import PathFact
from jumar.host.parse.listing import read_listing
from jumar.host.parse.npu_smi import read_info
from jumar.host.record import FORMAT, Host, Paths, read_part
from jumar.host.source import READ_LIMIT, NotRecordedError, Ran, follow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jumar.host.facts import Holder, Port

PARTS = ("host.json", "paths.json", "environ.txt", "files", "commands", "listings")
MEMBER_LIMIT, TOTAL_LIMIT = 16 << 20, 256 << 20
TABLE = "commands/npu-smi info.txt"

T = TypeVar("T")


class RecordedSource:
    """Answers from a record held in memory: `texts` by the name of its part."""

    def __init__(self, name: str, texts: Mapping[str, str]) -> None:
        self.name = name
        self._commands = {
            key[9:].removesuffix(".txt"): text
            for key, text in texts.items()
            if key.startswith("commands/")
        }
        self._host = read_part(f"{name}: host.json", Host, texts.get("host.json", "{}"))
        if self._host.format != FORMAT:
            raise InvalidInput(
                f"{name}: a record of format {self._host.format}, this Jumar reads {FORMAT}",
                param="host",
            )
        self._listed: set[str] = set()
        self._paths: dict[str, dict[str, Any]] = {}
        for key, text in texts.items():
            if key.startswith("listings/"):
                self._list(f"/{key[9:].removesuffix('.txt')}", text)
        told = read_part(f"{name}: paths.json", Paths, texts.get("paths.json", "{}"))
        for path, entry in told.root.items():
            self._paths[path] = entry.model_dump(exclude_none=True)
        self._files = {
            follow(f"/{key[6:]}", self.readlink)[0]: text
            for key, text in texts.items()
            if key.startswith("files/")
        }
        self._environ = texts.get("environ.txt")
        self._complete = self._host.complete
        self._folders = self._implied_folders()

    def run(self, *argv: str) -> Ran:
        line = " ".join(argv)
        self._refuse("run", line)
        text = self._commands.get(line)
        if text is not None:
            return Ran(text, self._host.exit_codes.get(line, 0))
        known = any(command.split(" ", 1)[0] == argv[0] for command in self._commands)
        if argv[0] in self._host.missing_programs or (self._complete and not known):
            raise FileNotFoundError(f"{argv[0]}: no such program")
        raise NotRecordedError(f"not recorded: {line}")

    def read(self, path: str) -> str:
        self._refuse("read", path)
        real, _ = follow(path, self.readlink)
        if real in self._files:
            return self._files[real][:READ_LIMIT]
        if self.stat(path).kind == "directory":
            raise IsADirectoryError(f"{path}: is a folder")
        if real in self._paths and self._paths[real].get("kind") != "missing":
            raise NotRecordedError(f"not recorded: the text of {path}")
        raise self._absent(path, real)

    def listdir(self, path: str) -> Sequence[str]:
        self._refuse("list", path)
        real, _ = follow(path, self.readlink)
        if real in self._folders:
            return sorted(self._folders[real])
        entry = self._paths.get(real, {})
        if entry.get("kind") == "directory":
            return []
        if real in self._files or entry.get("kind") not in (None, "missing"):
            raise NotADirectoryError(f"{path}: not a folder")
        raise self._absent(path, real)

    def stat(self, path: str) -> PathFact:
        self._refuse("stat", path)
        real, _ = follow(path, self.readlink)
        target = self.readlink(path.rstrip("/"))
        entry = self._paths.get(real)
        if entry is None or "kind" not in entry:
            kind = "file" if real in self._files else "directory"
            if real not in self._files and real not in self._folders:
                error = self._absent(path, real)
                if isinstance(error, NotRecordedError):
                    raise error
                kind = "missing"
            entry = {**(entry or {}), "kind": kind}
        known = {key: value for key, value in entry.items() if key not in ("link", "mode")}
        mode = int(entry["mode"], 8) if "mode" in entry else None
        return PathFact(path=path, mode=mode, target=target, **known)

    def readlink(self, path: str) -> str | None:
        target: str | None = self._paths.get(path, {}).get("link")
        return target

    def environ(self) -> Mapping[str, str]:
        self._refuse("environ")
        if self._host.environ is not None:
            return self._host.environ
        if self._environ is None:
            raise NotRecordedError("not recorded: the environment")
        pairs = (line.split("=", 1) for line in self._environ.splitlines() if "=" in line)
        return {name: value for name, value in pairs if name.isidentifier()}

    def process(self) -> Mapping[str, Any]:
        self._refuse("process")
        return self._told("process", self._host.process).model_dump(exclude_none=True)

    def disk(self, path: str) -> tuple[int, int]:
        self._refuse("disk", path)
        disks = self._host.disks or {}
        return self._told(f"disks {path}", disks.get(path))

    def holders(self) -> Mapping[str, Sequence[Holder]]:
        self._refuse("holders")
        return self._told("holders", self._host.holders)

    def listeners(self) -> Sequence[Port]:
        self._refuse("listeners")
        return self._told("listeners", self._host.listeners)

    def _told(self, what: str, answer: T | None) -> T:
        if answer is None:
            raise NotRecordedError(f"not recorded: {what}")
        return answer

    def _refuse(self, *call: str) -> None:
        """Fail as the recorded machine did when it was asked the same."""
        why = self._host.failures.get(" ".join(call))
        if why is not None:
            raise OSError(why)

    def _absent(self, path: str, real: str) -> OSError:
        told = self._complete or self._paths.get(real, {}).get("kind") == "missing"
        if told or (posixpath.dirname(real) in self._listed and real not in self._paths):
            return FileNotFoundError(f"{path}: no such file or folder")
        return NotRecordedError(f"not recorded: {path}")

    def _list(self, folder: str, text: str) -> None:
        """A pasted ``ls``: the folder holds nothing else."""
        self._listed.add(folder)
        self._paths[folder] = {"kind": "directory"}
        self._paths.update(read_listing(folder, text))

    def _implied_folders(self) -> dict[str, set[str]]:
        """Every folder above a file or path that exists, with the names in it."""
        folders: dict[str, set[str]] = {}
        present = [path for path, entry in self._paths.items() if entry.get("kind") != "missing"]
        for path in [*self._files, *present]:
            while path.strip("/"):
                parent, name = posixpath.split(path)
                folders.setdefault(parent, set()).add(name)
                path = parent
        return folders


def open_recorded(path: str) -> RecordedSource:
    """Open a recorded host. Raises InvalidInput where `path` is not one."""
    place = Path(path)
    if not (place.is_dir() or place.is_file()):
        raise InvalidInput(f"no such file or folder: {path}", param="host")
    try:
        if place.is_dir():
            texts = _read(path, _files(place))
        elif tarfile.is_tarfile(place):
            with tarfile.open(place) as tar:
                texts = _without_folder(_read(path, _members(tar)))
        else:
            texts = _read(path, [(TABLE, place.stat().st_size, place.open("rb"))])
            table = read_info(texts[TABLE])
            if not (table.cards or table.error or table.version):
                texts = {}
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", param="host") from error
    if not any(name.split("/", 1)[0] in PARTS for name in texts):
        raise InvalidInput(
            f"{path} is no recorded host: neither a folder or tar archive with one of "
            f"{', '.join(PARTS)}, nor a saved output of `npu-smi info`",
            hint="`jumar host snapshot out.tar.gz` records one.",
            param="host",
        )
    return RecordedSource(path, texts)


def _files(folder: Path) -> Iterator[tuple[str, int, IO[bytes]]]:
    for part in PARTS:
        for file in [folder / part, *(folder / part).rglob("*")]:
            if file.is_file():
                name = file.relative_to(folder).as_posix()
                yield name, file.stat().st_size, file.open("rb")


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, int, IO[bytes]]]:
    """Regular members only; nothing is unpacked to disk."""
    for member in tar:
        stream = tar.extractfile(member) if member.isfile() else None
        if stream is not None:
            yield member.name.removeprefix("./"), member.size, stream


def _read(path: str, parts: Iterable[tuple[str, int, IO[bytes]]]) -> dict[str, str]:
    """The text of each part (name, size, stream), as far as all of it is no more than a record."""
    texts: dict[str, str] = {}
    total = 0
    for name, size, stream in parts:
        with stream:
            total += size
            if size > MEMBER_LIMIT or total > TOTAL_LIMIT:
                raise InvalidInput(f"{path}: too large for a recorded host", param="host")
            texts[name] = _decode(stream.read())
    return texts


def _without_folder(texts: dict[str, str]) -> dict[str, str]:
    """One folder around everything in an archive is allowed."""
    heads = {name.split("/", 1)[0] for name in texts}
    if len(heads) != 1 or not heads.isdisjoint(PARTS):
        return texts
    return {name.split("/", 1)[1]: text for name, text in texts.items() if "/" in name}


def _decode(data: bytes) -> str:
    """UTF-8, or UTF-16 where the file begins so: PowerShell writes that for ``ssh … > FILE``."""
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return data.decode("utf-16" if wide else "utf-8-sig", errors="replace")

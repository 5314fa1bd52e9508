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

import json
import posixpath
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidInput
from jumar.host.facts import Holder, PathFact, Port
from jumar.host.parse.listing import read_listing
from jumar.host.source import READ_LIMIT, NotRecordedError, Ran, follow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FORMAT = 1
PARTS = ("host.json", "paths.json", "environ.txt", "files", "commands", "listings")
MEMBER_LIMIT, TOTAL_LIMIT = 16 << 20, 256 << 20


class RecordedSource:
    """Answers from a record held in memory: `texts` by the name of its part."""

    def __init__(self, name: str, texts: Mapping[str, str]) -> None:
        self.name = name
        self._commands = {
            key[9:].removesuffix(".txt"): text
            for key, text in texts.items()
            if key.startswith("commands/")
        }
        self._host = _object(name, "host.json", texts)
        self._listed: set[str] = set()
        self._paths: dict[str, dict[str, Any]] = {}
        for key, text in texts.items():
            if key.startswith("listings/"):
                self._list(f"/{key[9:].removesuffix('.txt')}", text)
        for path, entry in _object(name, "paths.json", texts).items():
            self._paths[path] = {"kind": entry} if isinstance(entry, str) else entry
        self._files = {
            follow(f"/{key[6:]}", self.readlink)[0]: text
            for key, text in texts.items()
            if key.startswith("files/")
        }
        self._environ = texts.get("environ.txt")
        if self._host.get("format", FORMAT) != FORMAT:
            raise InvalidInput(
                f"{name}: a record of format {self._host['format']}, this Jumar reads {FORMAT}"
            )
        self._complete = bool(self._host.get("complete", False))
        self._failures: Mapping[str, str] = self._host.get("failures", {})
        self._folders = self._implied_folders()

    def run(self, *argv: str) -> Ran:
        line = " ".join(argv)
        self._refuse("run", line)
        text = self._commands.get(line)
        if text is not None:
            return Ran(text, int(self._host.get("exit_codes", {}).get(line, 0)))
        known = any(command.split(" ", 1)[0] == argv[0] for command in self._commands)
        if argv[0] in self._host.get("missing_programs", ()) or (self._complete and not known):
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
        mode = entry.get("mode")
        return PathFact(
            path=path,
            kind=entry["kind"],
            mode=int(mode, 8) if isinstance(mode, str) else mode,
            uid=entry.get("uid"),
            gid=entry.get("gid"),
            owner=entry.get("owner"),
            group=entry.get("group"),
            target=target,
        )

    def readlink(self, path: str) -> str | None:
        target: str | None = self._paths.get(path, {}).get("link")
        return target

    def environ(self) -> Mapping[str, str]:
        self._refuse("environ")
        if "environ" in self._host:
            stored: Mapping[str, str] = self._host["environ"]
            return stored
        if self._environ is None:
            raise NotRecordedError("not recorded: the environment")
        pairs = (line.split("=", 1) for line in self._environ.splitlines() if "=" in line)
        return {name: value for name, value in pairs if name.isidentifier()}

    def process(self) -> Mapping[str, Any]:
        self._refuse("process")
        process: Mapping[str, Any] = self._part("process")
        return process

    def disk(self, path: str) -> tuple[int, int]:
        self._refuse("disk", path)
        total, free = self._part("disks", path)
        return total, free

    def holders(self) -> Mapping[str, Sequence[Holder]]:
        self._refuse("holders")
        held: Mapping[str, list[dict[str, Any]]] = self._part("holders")
        return {node: [Holder(**holder) for holder in holders] for node, holders in held.items()}

    def listeners(self) -> Sequence[Port]:
        self._refuse("listeners")
        return [Port(**port) for port in self._part("listeners")]

    def _part(self, name: str, key: str | None = None) -> Any:
        part = self._host.get(name)
        if part is None or (key is not None and key not in part):
            raise NotRecordedError(f"not recorded: {name}{f' {key}' if key else ''}")
        return part if key is None else part[key]

    def _refuse(self, *call: str) -> None:
        """Fail as the recorded machine did when it was asked the same."""
        why = self._failures.get(" ".join(call))
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
            while path != "/":
                parent, name = posixpath.split(path)
                folders.setdefault(parent, set()).add(name)
                path = parent
        return folders


def open_recorded(path: str) -> RecordedSource:
    """Open a recorded host. Raises InvalidInput where `path` is not one."""
    place = Path(path)
    if place.is_dir():
        texts = _read_folder(place)
    elif not place.is_file():
        raise InvalidInput(f"no such file or folder: {path}", param="host")
    elif tarfile.is_tarfile(place):
        texts = _read_tar(place)
    else:
        texts = {"commands/npu-smi info.txt": _decode(place.read_bytes())}
        if "npu-smi" not in texts["commands/npu-smi info.txt"]:
            raise InvalidInput(
                f"{path} is no recorded host: neither a folder, nor a tar archive, nor "
                "a saved output of `npu-smi info`",
                hint="`jumar host snapshot out.tar.gz` records one.",
                param="host",
            )
    if not any(name.split("/", 1)[0] in PARTS for name in texts):
        raise InvalidInput(
            f"{path} is no recorded host: it holds none of {', '.join(PARTS)}",
            hint="`jumar host snapshot out.tar.gz` records one.",
            param="host",
        )
    return RecordedSource(path, texts)


def _read_folder(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): _decode(file.read_bytes())
        for part in PARTS
        for file in [folder / part, *(folder / part).rglob("*")]
        if file.is_file()
    }


def _read_tar(archive: Path) -> dict[str, str]:
    """Regular members only, nothing is unpacked to disk; one folder around all of it is allowed."""
    texts: dict[str, str] = {}
    size = 0
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                if not member.isfile():
                    continue
                size += member.size
                if member.size > MEMBER_LIMIT or size > TOTAL_LIMIT:
                    raise InvalidInput(f"{archive}: too large for a recorded host", param="host")
                stream = tar.extractfile(member)
                if stream is not None:
                    texts[member.name.removeprefix("./")] = _decode(stream.read())
    except (tarfile.TarError, EOFError, OSError) as error:
        raise InvalidInput(f"{archive} cannot be read: {error}", param="host") from error
    heads = {name.split("/", 1)[0] for name in texts}
    if len(heads) == 1 and heads.isdisjoint(PARTS):
        texts = {name.split("/", 1)[1]: text for name, text in texts.items() if "/" in name}
    return texts


def _decode(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _object(name: str, part: str, texts: Mapping[str, str]) -> dict[str, Any]:
    try:
        value = json.loads(texts.get(part, "{}"))
    except ValueError as error:
        raise InvalidInput(f"{name}: {part} is not JSON: {error}", param="host") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{name}: {part} must be a JSON object", param="host")
    return value

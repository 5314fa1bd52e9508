"""Where facts come from: a live machine or a recorded one, behind one protocol.

Answers follow the standard library: what does not exist raises `FileNotFoundError`; any other
`OSError` (`PermissionError`, `TimeoutError`, `NotRecordedError`) means "could not look", which is
something else, and its text says why.
"""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jumar.host.facts import Holder, PathFact, Port


class NotRecordedError(OSError):
    """A recorded host was asked for something that its record does not hold."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a program printed (stdout and stderr together) and its exit status."""

    text: str
    exit_code: int = 0


class HostSource(Protocol):
    """Questions that a reader may ask of a machine. Paths are absolute; nothing is changed."""

    name: str
    """"live", or the path of the record."""

    def run(self, *argv: str) -> Ran:
        """Run a program that only reports. A missing program raises `FileNotFoundError`."""

    def read(self, path: str) -> str:
        """The text of a file (at most `READ_LIMIT` bytes; undecodable bytes replaced)."""

    def listdir(self, path: str) -> Sequence[str]:
        """The names in a folder, sorted."""

    def stat(self, path: str) -> PathFact:
        """What stands at a path, links followed; kind "missing" rather than an error."""

    def readlink(self, path: str) -> str | None:
        """What a link says; None where the path is no link or does not exist."""

    def environ(self) -> Mapping[str, str]:
        """All environment variables of the process."""

    def process(self) -> Mapping[str, Any]:
        """What only the process itself knows: `PROCESS_KEYS`."""

    def disk(self, path: str) -> tuple[int, int]:
        """Total and free MB of the file system that holds `path`."""

    def holders(self) -> Mapping[str, Sequence[Holder]]:
        """Which processes have which accelerator nodes of ``/dev`` open."""

    def listeners(self) -> Sequence[Port]:
        """The listening TCP ports."""


READ_LIMIT = 1 << 20

PROCESS_KEYS = (
    *("uid", "gid", "user", "groups", "group_names", "home", "cwd", "cwd_writable"),
    *("host_name",),
    *("kernel", "arch", "glibc", "locale", "cpu_count", "cpu_usable"),
    *("python_version", "python_executable", "packages"),
)
"""`packages` is ``{normalised name: [version, folder]}``; the rest are numbers, texts, lists.
`host_name` only serves to take it out of records."""


def follow(
    path: str, readlink: Callable[[str], str | None]
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Resolve every link along `path`: the final path, and each (link, target) that was passed.

    Raises OSError for a circle of links.
    """
    done, rest, passed = "/", path.strip("/").split("/"), []
    while rest:
        part = rest.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, part)
        target = readlink(here)
        if target is None:
            done = here
            continue
        passed.append((here, target))
        if len(passed) > 40:
            raise OSError(f"too many links: {path}")
        if target.startswith("/"):
            done = "/"
        rest = target.strip("/").split("/") + rest
    return done, tuple(passed)


def open_source(host: str | None) -> HostSource:
    """The live machine (None), or a recorded one: folder, tar archive, or a saved `npu-smi info`.

    Where NPUs are emulated, the machine around them is the live one.

    Raises InvalidInput for a path that is none of these.
    """
    if host is None and os.environ.get("JUMAR_EMULATE_NPU", "").strip() not in ("", "0"):
        from jumar.plugins import installed, load

        # An entry point, because nothing imports the emulator.
        for plugin in installed("jumar.hosts"):
            emulated: HostSource = load(plugin)()
            return emulated
    if host is None:
        from jumar.host.live import LiveSource

        return LiveSource()
    from jumar.host.recorded import open_recorded

    return open_recorded(host)

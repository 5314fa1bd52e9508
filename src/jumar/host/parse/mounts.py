"""``/proc/self/mountinfo``: where something is mounted, and of which kind."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount point and the type of its file system ("ext4", "nfs4", "overlay", "tmpfs")."""

    point: str
    fs_type: str


def read_mounts(text: str) -> tuple[list[Mount], tuple[str, ...]]:
    """The mounts in the order of the kernel, and lines that could not be read.

    Fields: id, parent, device, root, *point*, options, any tags, "-", *type*, source, options.
    Blanks in names are written as octal escapes.
    """
    mounts: list[Mount] = []
    unread: list[str] = []
    for line in filter(None, text.splitlines()):
        fields = line.split(" ")
        if len(fields) < 7 or "-" not in fields[6:-1]:
            unread.append(line)
            continue
        fs_type = fields[fields.index("-", 6) + 1]
        mounts.append(Mount(re.sub(r"\\([0-7]{3})", _octal, fields[4]), fs_type))
    return mounts, tuple(unread)


def fs_type_of(path: str, mounts: list[Mount]) -> str | None:
    """The type of the file system that holds `path`: of two on one point the later counts."""
    above = [m for m in mounts if path == m.point or path.startswith(m.point.rstrip("/") + "/")]
    longest = max((len(mount.point) for mount in above), default=0)
    return next((m.fs_type for m in reversed(above) if len(m.point) == longest), None)


def _octal(match: re.Match[str]) -> str:
    return chr(int(match[1], 8))

"""``ls`` and ``ls -l`` of a folder, as people paste them."""

from __future__ import annotations

import posixpath
import re
from typing import Any

LONG = re.compile(
    r"(?P<type>[-dlcbsp])(?P<mode>[-rwxsStT]{9})[.+@]?\s+\d+\s+(?P<owner>\S+)\s+(?P<group>\S+)\s+"
    r"(?:\d+,\s*\d+|\d+)\s+(?:(?:\S+\s+){2,3}?(?=\S+( -> |$)))?(?P<name>\S+)(?: -> (?P<link>\S+))?"
)
KINDS = {"-": "file", "d": "directory", "c": "char", "b": "block", "s": "socket"}
"""First letter of a long line; a link is told by its target instead."""


def read_listing(folder: str, text: str) -> dict[str, dict[str, Any]]:
    """What stands in `folder`, by full path, as ``paths.json`` of a recorded host says it.

    A short listing gives names alone: what they are is not known. Lines of neither form are
    passed over ("total 0", the prompt).
    """
    found: dict[str, dict[str, Any]] = {}
    for line in map(str.strip, text.splitlines()):
        match = LONG.fullmatch(line)
        if match is None:
            if re.fullmatch(r"[\w./+-]+", line) and not line.endswith((":", "/")):
                found[posixpath.join(folder, line)] = {}
            continue
        path = posixpath.join(folder, match["name"])
        if match["link"]:
            found[path] = {"link": match["link"]}
            continue
        found[path] = {
            "kind": KINDS.get(match["type"], "other"),
            "mode": f"{_bits(match['mode']):04o}",
            "owner": match["owner"],
            "group": match["group"],
        }
    return found


def _bits(text: str) -> int:
    """0o660 of ``rw-rw----``; an upper-case S or T has no execute bit below it."""
    bits = 0
    for sign in text:
        bits = (bits << 1) | (sign not in "-ST")
    return bits

"""What all parsers share: numbers, ``used / total``, ``key : value`` lines, tool errors."""

from __future__ import annotations

import re

from jumar.host.facts import ToolError, ToolErrorKind, Usage

ABSENT = ("", "-", "NA", "N/A", "na")
"""How tools print that there is no value."""

ERRORS: tuple[tuple[str, ToolErrorKind], ...] = (
    (r"There is no NPU card", "no-card"),
    (r"error while loading shared libraries: (?P<library>\S+?):", "library"),
    (r"(?P<library>lib\S+\.so\S*?): cannot open shared object file", "library"),
    (r"No such file or directory|command not found|: not found", "missing"),
    (r"ret is (?P<code>-?\d+)|\berr(?:or)?(?: code)?[:=]? ?(?P<number>-?\d+)", "cannot-open"),
    (r"dcmi .*fail|DrvMng\w+ failed|drvGetDevNum", "cannot-open"),
    (r"[Pp]ermission denied|Operation not permitted", "permission"),
    (r"couldn't communicate with the NVIDIA driver|Driver/library version mismatch", "cannot-open"),
    (r"No devices were found", "no-card"),
)
"""Error texts of npu-smi and nvidia-smi, most telling first, and the kind of `ToolError`."""


def number(text: str) -> int | None:
    """A whole number; None where the text says that there is none. Raises ValueError else."""
    text = text.strip()
    if text in ABSENT:
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII):
        raise ValueError(f"{text!r} is no number")
    return int(text)


def decimal(text: str) -> float | None:
    """A number with or without a point; None where there is none. Raises ValueError else."""
    text = text.strip()
    if text in ABSENT:
        return None
    if not re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        raise ValueError(f"{text!r} is no number")
    return float(text)


def usage(text: str) -> Usage:
    """``31247/ 65536``, ``NA   / 15609``. Raises ValueError else."""
    used, slash, total = text.partition("/")
    if not slash:
        raise ValueError(f"{text!r} is not used/total")
    return Usage(used=number(used), total=number(total))


def known(text: str) -> str | None:
    """The text, or None where it says that there is no value."""
    text = text.strip()
    return None if text in ABSENT else text


def pair(line: str) -> tuple[str, str] | None:
    """Key and value of ``key=value``, ``key : value`` or ``key:value``, at the first sign."""
    match = re.match(r"\s*([^=:]+?)\s*[=:]\s*(.*?)\s*$", line)
    if match is None:
        return None
    key, value = match.groups()
    if len(value) > 1 and value[0] == value[-1] == '"':
        value = value[1:-1]
    return key, value


def pairs(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """All ``key = value`` lines of a text (the last of a key counts), and the lines that are none.

    Blank lines and comments (``#``) are neither.
    """
    values: dict[str, str] = {}
    unread: list[str] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = pair(line)
        if found is None:
            unread.append(line)
        else:
            values[found[0]] = found[1]
    return values, tuple(unread)


def tool_error(text: str, *, exit_code: int = 0) -> ToolError | None:
    """The error that a tool printed, or None. Unknown text and a bad exit status are "failed"."""
    shown = text.strip()
    for pattern, kind in ERRORS:
        match = re.search(pattern, shown)
        if match is not None:
            groups = match.groupdict()
            return ToolError(
                kind=kind,
                text=shown,
                code=_code(groups.get("code") or groups.get("number")),
                library=groups.get("library"),
            )
    return ToolError(kind="failed", text=shown) if exit_code else None


def _code(text: str | None) -> int | None:
    return None if text is None else int(text)

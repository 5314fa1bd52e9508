"""``version.info``, ``ascend_install.info``, ``ascend_toolkit_install.info``, ``version.cfg``."""

from __future__ import annotations

import re
from collections.abc import Mapping

CFG = re.compile(r"\[(?P<inner>[^\[\]:]+):(?P<outer>[^\[\]:]+)\]")
DIR_VERSION = re.compile(r"(?:cann-)?(\d+\.\d+[.\w]*)")


def cfg_version(values: Mapping[str, str], package: str = "toolkit") -> str | None:
    """The outer version that ``version.cfg`` says is running: ``[7.6.0.1.200:8.0.0]`` is 8.0.0."""
    match = CFG.search(values.get(f"{package}_running_version", ""))
    return None if match is None else match["outer"]


def dir_version(folder: str) -> str | None:
    """The version in the name of a folder: "8.2.RC1", "cann-8.5.0"; None for "latest"."""
    match = DIR_VERSION.fullmatch(folder)
    return None if match is None else match[1]


def first_version(values: Mapping[str, str]) -> str | None:
    """The version of a ``key : value`` file: the first key with "version", else the first value."""
    named = [value for key, value in values.items() if "version" in key.lower() and value]
    return next(iter([*named, *filter(None, values.values())]), None)

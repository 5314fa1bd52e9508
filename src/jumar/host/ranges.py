"""Version numbers as Huawei's packages write them, and the ranges they accept of each other."""

from __future__ import annotations

import re
from dataclasses import dataclass


def version_key(version: str) -> tuple[tuple[int, int, str], ...]:
    """A key that sorts "24.1.rc2" < "24.1.rc10" < "24.1.0" and "8.2.RC1" < "8.2.0".

    Numbers compare as numbers; a part with letters ("rc1", "T63", "post2") stands before any number
    except "post", which stands after.
    """
    key: list[tuple[int, int, str]] = []
    for part in re.findall(r"[A-Za-z]+|\d+", version):
        if part.isdecimal():
            key.append((1, int(part), ""))
        else:
            word = part.lower()
            key.append((2, 0, word) if word == "post" else (0, 0, word))
    return tuple(key)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRange:
    """An inclusive range, ``[7.0.0,7.2.99]``.

    A high end with a dot behind it (``[24.1,24.1.]``) takes every version that begins so.
    """

    low: str
    high: str

    def holds(self, version: str) -> bool:
        """Whether `version` lies inside; further digits than the high end has are inside too."""
        if self.high.endswith("."):
            return version == self.low or f"{version}.".startswith(self.high)
        key, high = version_key(version), version_key(self.high)
        return version_key(self.low) <= key and key[: len(high)] <= high

    def __str__(self) -> str:
        return f"{self.low} - {self.high}"


def read_ranges(text: str) -> tuple[VersionRange, ...]:
    """The ranges of ``[6.4.0,6.4.99],[7.0.0,8.9.9]``."""
    pairs = re.findall(r"\[\s*([^\],\s]+)\s*,\s*([^\],\s]+)\s*\]", text)
    return tuple(VersionRange(low=low, high=high) for low, high in pairs)


def read_list(text: str) -> tuple[str, ...]:
    """The names of ``[V100R001C15],[V100R001C18]``."""
    return tuple(re.findall(r"\[\s*([^\],\s]+)\s*\]", text))

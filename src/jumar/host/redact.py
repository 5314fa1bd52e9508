"""What is taken out of a record of a machine before anybody else sees it.

Taken out: credentials, logins in URLs, network addresses, serial numbers, UUIDs, MAC and mail
addresses, host names, names of people's accounts, ids of containers. Kept: versions, chip names,
PCI slots (the same on thousands of machines), sizes, modes, names of processes.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from jumar.host.facts import MASKED
from jumar.host.readers.process import CREDENTIAL, URL_LOGIN

if TYPE_CHECKING:
    from collections.abc import Mapping

REMOVED = "REMOVED"
ADDRESS = "192.0.2.0"
"""Stands for a removed IPv4 address: one that RFC 5737 sets apart for documents."""

_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_QUAD = rf"(?!127\.|0\.0\.0\.0){_BYTE}(?:\.{_BYTE}){{3}}"
NETWORK = (
    re.compile(rf"(?<![\w.]){_QUAD}(?![\w.])"),
    re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){4,7}:?[0-9a-f]{1,4}(?![\w:])"),
    re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{1,4}:){1,7}:(?:[0-9a-f]{1,4}:?){1,6}(?![\w:])"),
)
"""IPv4 but for loopback, IPv6 in full, IPv6 with "::"."""

RULES: tuple[tuple[str, str], ...] = (
    ("credential", r"\b(?:hf|gh[opsu]|glpat|sk|pk|xox[abp]|npm|pypi)[_-][A-Za-z0-9_-]{16,}"),
    ("credential", r"\bms-[0-9a-f]{8}-[0-9a-f-]{20,}"),
    ("credential", r"\bAKIA[0-9A-Z]{16}\b"),
    ("credential", r"\beyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]+)?"),
    ("credential", r"(?<=(?i:bearer) )[A-Za-z0-9._~+/-]{16,}=*"),
    ("credential", r"-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*KEY-----|\Z)"),
    ("login in a URL", URL_LOGIN.pattern),
    ("serial number", r"(?i)(?P<keep>\bserial\b[^:=\n]*[:=][^\S\n]*)(?!NA\b)[^\s|]+"),
    ("serial number", r"(?im)^(?P<keep>\s*(?:sn|v?die id)\s*[:=]\s*)(?!NA\b)\S.*$"),
    ("UUID", r"(?i)\b(?:GPU-)?[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}\b"),
    ("MAC address", r"(?i)\b[0-9a-f]{2}(?P<sign>[:-])(?:[0-9a-f]{2}(?P=sign)){4}[0-9a-f]{2}\b"),
    # Elsewhere four numbers with dots may be a version; these never are.
    (
        "network address",
        rf"(?<![\w.])(?:192\.168|172\.(?:1[6-9]|2\d|3[01]))\.{_BYTE}\.{_BYTE}(?![\w.])",
    ),
    (
        "network address",
        rf"(?i)(?P<keep>\b(?:ip|addr(?:ess)?|gateway)\b[^:=\n]*[:=]\s*){_QUAD}(?![\w.])",
    ),
    ("container id", r"\b[0-9a-f]{64}\b"),
    ("account name", r"(?P<keep>/home/)(?!HwHiAiUser\b)[^/\s:;,'\"]+"),
    ("mail address", r"(?<![/\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+\b"),
)
"""Kind of what is removed, and its pattern; a group `keep` stays."""
NAMES_HOSTS = re.compile(r"(ADDR|ADDRESS|HOST|PROXY)$", re.IGNORECASE)
"""Variables whose values name other machines."""
HOST_NAME = re.compile(
    r"(?i)(?<![\w-])\.?(?!localhost\b|REMOVED@)[a-z][\w-]*(?:\.[\w-]+)*(?![\w.]|://)"
)
COMPILED = tuple((kind, re.compile(pattern)) for kind, pattern in RULES)

ACCOUNTS = frozenset(
    (
        *("root", "HwHiAiUser", "HwBaseUser", "HwDmUser", "HwSysUser", "nobody", "nogroup"),
        *("daemon", "bin", "sys", "tty", "disk", "video", "render", "users", "docker", "sudo"),
        *("wheel", "adm"),
    )
)
"""Accounts that every machine of a kind has; other names may be a person's."""
COMMON_WORDS = frozenset(
    (
        *("localhost", "ascend", "npu", "davinci", "docker", "driver", "linux", "local", "python"),
        *("server", "node", "host", "user", "admin", "ubuntu", "debian", "centos", "vllm"),
    )
)
"""Host names that tell nothing, and whose removal would tear up paths and versions."""


class Redactor:
    """Cleans texts, and counts by kind what it took out (`removed`)."""

    def __init__(self) -> None:
        self.removed: Counter[str] = Counter()
        self._names: list[tuple[str, re.Pattern[str], str]] = []

    def forget(self, kind: str, name: str | None, stand_in: str) -> None:
        """From now on write `stand_in` for a name, where it stands alone."""
        if name and len(name) > 2 and name.lower() not in COMMON_WORDS and name not in ACCOUNTS:
            alone = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])")
            self._names.append((kind, alone, stand_in))

    def account(self, name: str | None, number: int | None) -> str | None:
        """The name of an account, or a stand-in where it may be a person's."""
        if name is None or name in ACCOUNTS:
            return name
        self.removed["account name"] += 1
        return f"user{number}"

    def text(self, text: str, *, versions: bool = True) -> str:
        """A clean text. `versions`: four numbers with dots are a version (7.7.0.1), no address."""
        for kind, pattern in COMPILED:
            stand_in = ADDRESS if kind == "network address" else REMOVED
            text = self._replace(kind, pattern, text, stand_in)
        for kind, alone, stand_in in self._names:
            text = self._replace(kind, alone, text, stand_in)
        for pattern in () if versions else NETWORK:
            text = self._replace("network address", pattern, text, ADDRESS)
        return text

    def environ(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Variables: credentials masked by their names, the values of the rest cleaned.

        A value that is a path (no URL) may hold a version that looks like an address.
        """
        clean: dict[str, str] = {}
        for name, value in environ.items():
            if value and value != MASKED and CREDENTIAL.search(name):
                self.removed["credential"] += 1
                clean[name] = MASKED
            else:
                kept = self.text(value, versions="/" in value and "://" not in value)
                if NAMES_HOSTS.search(name):
                    kept = self._replace("host name", HOST_NAME, kept, "HOST")
                clean[name] = kept
        return clean

    def data(self, value: Any) -> Any:
        """JSON-able data with every text in it cleaned, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.data(key): self.data(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(item) for item in value]
        return value

    def _replace(self, kind: str, pattern: re.Pattern[str], text: str, stand_in: str) -> str:
        def clean(match: re.Match[str]) -> str:
            kept = match.groupdict().get("keep") or ""
            if match[0] == kept + stand_in:
                return match[0]
            self.removed[kind] += 1
            return kept + stand_in

        return pattern.sub(clean, text)

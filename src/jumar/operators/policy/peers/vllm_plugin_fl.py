"""vllm-plugin-FL's platform YAML: who computes the dispatcher's operators, and three name lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput
from jumar.operators.policy.located import Text, line_of, read, texts

LISTS = ("flagos_blacklist", "flagos_whitelist", "oot_blacklist", "allow_vendors", "deny_vendors")


@dataclass(frozen=True)
class Config:
    """One file. `values` are its plain settings, `order` its `op_backends`, `lists` its lists."""

    place: str
    keys: tuple[str, ...]
    values: Mapping[str, Text] = field(default_factory=dict)
    order: Mapping[str, tuple[Text, ...]] = field(default_factory=dict)
    lists: Mapping[str, tuple[Text, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Facts:
    """What the plugin's code reads, and the names it knows (`vllm_plugin_fl.yaml`)."""

    read: frozenset[str]
    unread: Mapping[str, Mapping[str, str]]
    prefer: tuple[str, ...]
    tokens: tuple[str, ...]
    vendors: tuple[str, ...]
    flagos_layers: tuple[str, ...]
    other_layers: tuple[str, ...]
    oot: tuple[str, ...]

    @property
    def layers(self) -> tuple[str, ...]:
        """All operators of its dispatcher."""
        return (*self.flagos_layers, *self.other_layers)

    @property
    def keys(self) -> frozenset[str]:
        """What may stand at the top of the file, read or not."""
        return self.read | frozenset(self.unread)

    @property
    def every_token(self) -> tuple[str, ...]:
        """All tokens of an order but `impl:ID`, which names one registration."""
        return (*self.tokens, *(f"vendor:{vendor}" for vendor in self.vendors))


@cache
def facts() -> Facts:
    """Read once in a process."""
    data = read(Path(__file__).with_suffix(".yaml"))
    named = {key: tuple(value) for key, value in data.items() if isinstance(value, list)}
    return Facts(unread=data["unread"], read=frozenset(named.pop("read")), **named)


def config(data: Mapping[str, Any], place: str) -> Config:
    """The file's mapping, with names as the plugin takes them: `str()` of each entry.

    Raises:
        InvalidInput: a list is no list, or `op_backends` no mapping.
    """
    lists, values, order = {}, {}, {}
    for key, value in data.items():
        if key in LISTS:
            if value is not None and not isinstance(value, (list, str)):
                raise InvalidInput(f"{place}:{line_of(key)}: {key} is a list of names.")
            lists[str(key)] = texts(value, line_of(key))
        elif key in ("op_backends", "per_op"):
            if not isinstance(value, dict):
                raise InvalidInput(f"{place}:{line_of(key)}: {key} is a mapping of operators.")
            if key == "op_backends":
                order = {name: _tokens(tokens, line_of(name)) for name, tokens in value.items()}
        elif not isinstance(value, (dict, list)):
            values[str(key)] = texts(str(value).lower(), line_of(key))[0]
    return Config(place, tuple(data), values, order, lists)


def _tokens(written: Any, line: int) -> tuple[Text, ...]:
    """A list, or `vendor:cuda|flagos` in one text."""
    if isinstance(written, str):
        return texts([one.strip() for one in written.split("|") if one.strip()], line)
    return texts(written, line)

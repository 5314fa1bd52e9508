"""YAML in which every text knows its line, and a key that stands twice is an error."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import yaml

from jumar.contracts.errors import InvalidInput


class Text(str):
    """A string of a file, with the line it stands on (from 1)."""

    __slots__ = ("line",)
    line: int


def text(value: object, line: int) -> Text:
    """`value` as text on that line; what is one already keeps its own."""
    if isinstance(value, Text):
        return value
    made = Text(str(value).lower() if isinstance(value, bool) else value)
    made.line = line
    return made


def texts(value: object, line: int) -> tuple[Text, ...]:
    """A list of texts, or one text in place of a list of one; empty for nothing."""
    if value is None:
        return ()
    many: Iterable[object] = value if isinstance(value, (list, tuple)) else (value,)
    return tuple(text(one, line) for one in many)


def line_of(value: object, otherwise: int = 0) -> int:
    """The line where a value begins, as far as its texts tell."""
    if isinstance(value, Text):
        return value.line
    inner: Iterable[object] = value if isinstance(value, (dict, list)) else ()
    return next((line for one in inner if (line := line_of(one))), otherwise)


def read(source: Path | str, name: str | None = None) -> dict[str, Any]:
    """The mapping of a YAML file, or of YAML text that is called `name`.

    Raises:
        InvalidInput: it cannot be read, is no YAML, or no mapping; says where.
    """
    place = str(source) if name is None else name
    try:
        written = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
        data = yaml.load(written, Loader=_Loader)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{place} cannot be read: {error}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f"{place}:{mark.line + 1}" if mark else place
        raise InvalidInput(f"{where}: {error.problem or error}.") from error
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InvalidInput(f"{place} is no mapping of keys.")
    return data


class _Loader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[object] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_text(self, node: yaml.ScalarNode) -> Text:
        return text(self.construct_scalar(node), node.start_mark.line + 1)


_Loader.add_constructor("tag:yaml.org,2002:str", _Loader.construct_text)

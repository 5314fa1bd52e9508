"""The lists that FlagGems is given: in Python calls, in its own YAML, or plain."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jumar.contracts.errors import InvalidInput
from jumar.operators.policy.located import Text, line_of, text, texts

KEYS = ("exclude", "include")

CALLS: Mapping[str, Mapping[str, tuple[int, Literal["exclude", "include"]]]] = {
    "enable": {"unused": (1, "exclude")},
    "only_enable": {"include": (1, "include")},
    "use_gems": {"exclude": (0, "exclude"), "include": (1, "include")},
}
"""Where a call takes its list: parameter, position, and what the list does."""


@dataclass(frozen=True)
class Listing:
    """One list of function names. `unread` says why it could not be read; it is empty then."""

    place: str
    kind: Literal["exclude", "include"]
    entries: tuple[Text, ...] = ()
    line: int = 0
    unread: str = ""


def from_text(path: Path) -> Listing:
    """Names, one on a line or with commas between; `#` begins a comment."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    entries = [
        text(name.strip(), number)
        for number, line in enumerate(lines, 1)
        for name in line.partition("#")[0].split(",")
        if name.strip()
    ]
    return Listing(path.name, "exclude", tuple(entries))


def from_mapping(data: Mapping[str, Any], place: str) -> tuple[Listing, ...]:
    """The YAML that `flag_gems.enable(unused="file.yaml")` takes."""
    return tuple(
        Listing(place, "include" if key == "include" else "exclude", texts(value, line_of(key)))
        for key, value in data.items()
        if key in KEYS
    )


def from_python(path: Path) -> tuple[Listing, ...]:
    """The lists of all calls in a Python file, which is read and not run.

    A list may stand in the call, or be a name that the module gives a list. Raises InvalidInput
    where there is no call, or no Python.
    """
    try:
        module = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError) as error:
        raise InvalidInput(f"{path} cannot be read: {error}") from error
    assigned = {
        target.id: node.value
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = [
        listing
        for node in ast.walk(module)
        if isinstance(node, ast.Call)
        for listing in _of_call(node, assigned, path.name)
    ]
    if not found:
        raise InvalidInput(f"{path} gives FlagGems no list: it calls none of {', '.join(CALLS)}.")
    return tuple(found)


def _of_call(call: ast.Call, assigned: Mapping[str, ast.expr], place: str) -> Iterator[Listing]:
    name = getattr(call.func, "attr", getattr(call.func, "id", ""))
    for parameter, (position, kind) in CALLS.get(name, {}).items():
        given = next((word.value for word in call.keywords if word.arg == parameter), None)
        if given is None and len(call.args) > position:
            given = call.args[position]
        if isinstance(given, ast.Name):
            given = assigned.get(given.id, given)
        if given is None or (isinstance(given, ast.Constant) and given.value is None):
            continue
        names = _names(given)
        if names is None:
            said = f"{ast.unparse(given)} is no list of names that can be read without running it"
            yield Listing(place, kind, line=given.lineno, unread=said)
        else:
            yield Listing(place, kind, names, given.lineno)


def _names(given: ast.expr) -> tuple[Text, ...] | None:
    if not isinstance(given, (ast.List, ast.Tuple, ast.Set)):
        return None
    names = [
        text(one.value, one.lineno)
        for one in given.elts
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]
    return tuple(names) if len(names) == len(given.elts) else None

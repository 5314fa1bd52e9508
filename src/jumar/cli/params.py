"""A manifest's `Param` on the command line: how its value is written, and what is said of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jumar.catalog.manifest import Manifest, Param

METAVARS = {
    "text": "TEXT",
    "texts": "TEXT",
    "integer": "INTEGER",
    "number": "NUMBER",
    "boolean": "BOOLEAN",
    "image": "FILE",
    "audio": "FILE",
    "path": "PATH",
    "object": "JSON",
}

_LONG = 40
"""Characters of a list of choices that still fit into the first column of a help text."""
_ENDLESS = 1e15

_HEADINGS = ("Inputs", "Config", "Loading", "Every model")

_WORDS = {"true": True, "yes": True, "on": True, "1": True} | {
    "false": False, "no": False, "off": False, "0": False
}  # fmt: skip


@dataclass(frozen=True)
class Key:
    """One input or config key of a model, told once for all tasks that have it."""

    part: str
    """`inputs` or `config`: where it stands in a request."""
    name: str
    param: Param
    """As the first of its tasks defines it."""
    heading: str
    said: str
    """All that the first column of a help text does not say of it."""


def keys_of(manifest: Manifest, task: str | None = None) -> list[Key]:
    """The keys of one task, or of all, in the order in which help shows them.

    A task that the model does not have gets all keys: the catalog says what is wrong with it.
    """
    specs = {name: spec for name, spec in manifest.tasks.items() if name == task}
    specs = specs or dict(manifest.tasks)
    keys = []
    for part in ("inputs", "config"):
        having: dict[str, dict[str, Param]] = {}
        for name, spec in specs.items():
            for key, param in getattr(spec, part).items():
                having.setdefault(key, {})[name] = param
        keys += [_key(part, key, by_task, len(specs)) for key, by_task in having.items()]
    return sorted(keys, key=lambda key: _HEADINGS.index(key.heading))


def _key(part: str, name: str, by_task: dict[str, Param], tasks: int) -> Key:
    (_, param), *others = by_task.items()
    notes = []
    if len(by_task) < tasks:
        notes.append(f"for {', '.join(by_task)}")
    elif all(other.required for other in by_task.values()):
        notes.append("required")
    notes.append(limits(param))
    notes += [f"for {task} {limits(other)}" for task, other in others if other != param]
    said = "; ".join(filter(None, notes))
    heading = "Every model" if param.engine else "Loading" if param.load else part.capitalize()
    return Key(part, name, param, heading, f"{param.help}  [{said}]" if said else param.help)


def metavar(param: Param) -> str:
    """What stands for the value in help: `INTEGER`, `[fp16|bf16|fp32]`, `NAME` for many choices."""
    choices = "|".join(param.choices)
    if not choices:
        return METAVARS[param.type]
    return f"[{choices}]" if len(choices) <= _LONG else "NAME"


def typed(param: Param, text: str) -> Any:
    """The value that `text` means for `param`.

    What cannot be read so stays the text that it is: `catalog.resolve` is the one place that
    refuses values, for files, flags and HTTP alike.
    """
    try:
        return _READERS.get(param.type, str)(text)
    except (ValueError, KeyError):
        return text


def limits(param: Param) -> str:
    """Range, choices, default and variable: `16 to 128 px by 8; default 32; $JUMAR_WIDTH`."""
    parts = [_range(param)] if param.type in ("integer", "number") else []
    if metavar(param) == "NAME":
        parts.append(f"one of {', '.join(param.choices)}")
    if param.default is not None:
        parts.append(f"default {_shown(param.default)}")
    if param.env:
        parts.append(f"${param.variables[0]}")
    return "; ".join(part for part in parts if part)


def _range(param: Param) -> str:
    low, high = param.minimum, param.maximum
    if high is not None and high > _ENDLESS:
        high = None
    words = ""
    if low is not None and high is not None:
        words = f"{low:g} to {high:.15g}"
    elif low is not None or high is not None:
        words = f"at least {low:g}" if low is not None else f"at most {high:.15g}"
    unit = f" {param.unit}" if param.unit else ""
    step = f" by {param.step:g}" if param.step not in (None, 1) else ""
    return f"{words}{unit}{step}".strip()


def _shown(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{value:g}"


def _structure(text: str) -> Any:
    return json.loads(text) if text.lstrip()[:1] in ("{", "[") else text


_READERS: dict[str, Callable[[str], Any]] = {
    "integer": int,
    "number": float,
    "boolean": lambda text: _WORDS[text.strip().lower()],
    "object": json.loads,
    "texts": _structure,
}

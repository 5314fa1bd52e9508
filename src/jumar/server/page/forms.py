"""The form of a model: its vocabulary as fields that a browser can show.

A field is named as the catalog names it in its errors (`inputs.prompt`, `config.seed`), so that
what the server says of one is shown at it. What is left empty is not sent: the catalog's default
counts, and the field says which that is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jumar.catalog.manifest import Param, TaskSpec

CONTROLS = {
    "text": "area",
    "texts": "area",
    "object": "area",
    "path": "line",
    "integer": "number",
    "number": "number",
    "boolean": "choice",
    "choice": "choice",
    "image": "file",
    "audio": "file",
}
"""Types of the vocabulary, and the kinds of field that they are shown as."""

_ENDLESS = 1e15
_SHORT = 1_000
"""A text of at most so many characters is one line."""


@dataclass(frozen=True)
class Field:
    """One key of a model."""

    part: str
    key: str
    param: Param

    @property
    def name(self) -> str:
        """As in errors."""
        return f"{self.part}.{self.key}"

    @property
    def label(self) -> str:
        """For people: `num_inference_steps` is `num inference steps`."""
        return self.key.replace("_", " ")

    @property
    def control(self) -> str:
        """`area`, `line`, `number`, `choice` or `file`."""
        longest = self.param.maximum
        if self.param.type == "text" and longest is not None and longest <= _SHORT:
            return "line"
        return CONTROLS[self.param.type]

    @property
    def options(self) -> tuple[str, ...]:
        """What can be chosen."""
        return self.param.choices or ("true", "false")

    @property
    def default(self) -> str | None:
        """What counts where the field is empty, as it would be written."""
        value = self.param.default
        return value if value is None or isinstance(value, str) else json.dumps(value)

    @property
    def bounds(self) -> str:
        """`32 to 64 px, in steps of 8`; empty where nothing bounds it."""
        param = self.param
        if CONTROLS[param.type] != "number":
            return ""
        low, high = (_number(bound) for bound in (param.minimum, param.maximum))
        both = f"{low} to {high}" if low and high else f"from {low}" if low else f"up to {high}"
        said = [both if low or high else "", param.unit or ""]
        step = f", in steps of {_number(param.step)}" if param.step not in (None, 1) else ""
        return " ".join(part for part in said if part) + step


@dataclass(frozen=True)
class Group:
    """Fields that belong together; `note` says what they do. One with a note is folded."""

    title: str
    fields: list[Field]
    note: str = ""


def groups(spec: TaskSpec) -> list[Group]:
    """The fields of a task that callers may set: what goes in, how it is done, how it is loaded."""
    config = _fields("config", spec.config)
    loads = [field for field in config if field.param.load]
    asks = [field for field in config if field.param.engine and field.key != "preset"]
    does = [field for field in config if field not in loads and field not in asks]
    found = [
        Group("Inputs", _fields("inputs", spec.inputs)),
        Group("Settings", does),
        Group("How it is loaded", loads, "Another value here loads the model once more."),
        Group("This request", asks, "Its name in reports, and how long it may take."),
    ]
    return [group for group in found if group.fields]


def _fields(part: str, params: Mapping[str, Param]) -> list[Field]:
    """Required ones first, then the preset; keys of the operator's are no caller's business."""
    listed: Iterable[Field] = (Field(part, key, params[key]) for key in params)
    shown = [field for field in listed if not field.param.operator]
    return sorted(shown, key=lambda field: (not field.param.required, field.key != "preset"))


def _number(value: int | float | None) -> str:
    """A bound, where it is one that anybody could reach."""
    if value is None or abs(value) > _ENDLESS:
        return ""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"

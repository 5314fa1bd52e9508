"""Whether a value is one that a key may have, and the value in the key's own type.

Values come from JSON, YAML, Python and the command line; a number or a boolean may come as text
(`"20"`), and is taken only where nothing is lost.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable
from numbers import Integral, Real
from pathlib import Path
from typing import Any, TypeVar

from jumar.catalog.manifest import Param
from jumar.contracts.errors import (
    InvalidInput,
    InvalidRequest,
    InvalidValue,
    RequestTooLarge,
    did_you_mean,
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_N = TypeVar("_N", int, float)
_TRUTH = {"true": True, "false": False}


def accepted(param: Param, value: Any, where: str) -> Any:
    """`value` in the type of `param`. `where` is `inputs.KEY` or `config.KEY`.

    Raises:
        InvalidInput: an input of the wrong type, empty, too long, or a file that is not there.
        InvalidValue: a config value of the wrong type, out of range, or not among the choices.
        RequestTooLarge: more texts than one request may have.
    """
    try:
        return _TYPES[param.type](param, value)
    except _Refused as refused:
        kind = refused.kind or (InvalidInput if where.startswith("inputs.") else InvalidValue)
        raise kind(f"{where} {refused}", hint=refused.hint, param=where) from None


class _Refused(Exception):
    """Half a sentence that says what is wrong, and what would be right."""

    def __init__(
        self, what: str, *, hint: str | None = None, kind: type[InvalidRequest] | None = None
    ) -> None:
        super().__init__(what)
        self.hint = hint
        self.kind = kind


def _integer(param: Param, value: Any) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value % 1 == 0:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise _Refused(f"must be a whole number, not {shown(value)}.", hint=_range(param))
    return _in_range(param, int(value))


def _number(param: Param, value: Any) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _Refused(f"must be a number, not {shown(value)}.", hint=_range(param))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _Refused(f"must be a finite number, not {shown(value)}.", hint=_range(param))
    return _in_range(param, number)


def _in_range(param: Param, value: _N) -> _N:
    low, high = param.minimum, param.maximum
    if low is not None and value < low:
        raise _Refused(f"is {shown(value)}, below {_unit(param, low)}.", hint=_range(param))
    if high is not None and value > high:
        raise _Refused(f"is {shown(value)}, above {_unit(param, high)}.", hint=_range(param))
    if param.step is not None and not _on_step(param, value):
        near = " or ".join(_text(valid) for valid in _neighbours(param, value))
        grid = f"no multiple of {_unit(param, param.step)}"
        if (param.minimum or 0) % param.step:
            grid = f"not {_text(param.minimum or 0)} plus a multiple of {_unit(param, param.step)}"
        raise _Refused(f"is {shown(value)}, {grid}.", hint=f"Nearest: {near}.")
    return value


def _on_step(param: Param, value: int | float) -> bool:
    steps = (value - (param.minimum or 0)) / (param.step or 1)
    return abs(steps - round(steps)) < 1e-9


def _neighbours(param: Param, value: int | float) -> list[int | float]:
    """The valid values just below and just above, where there are such."""
    start, step = param.minimum or 0, param.step or 1
    below = start + math.floor((value - start) / step) * step
    both = (below, below + step)
    return [near for near in both if param.maximum is None or near <= param.maximum]


def _boolean(param: Param, value: Any) -> bool:
    value = _TRUTH.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        raise _Refused(f"must be true or false, not {shown(value)}.")
    return value


def _choice(param: Param, value: Any) -> str:
    if not isinstance(value, str) or value not in param.choices:
        raise _Refused(
            f"has no choice {shown(value)}.",
            hint=did_you_mean(value[:100] if isinstance(value, str) else "", param.choices),
        )
    return value


def _words(param: Param, value: Any) -> str:
    if not isinstance(value, str):
        raise _Refused(f"must be text, not {shown(value)}.")
    if param.required and not value.strip():
        raise _Refused("is empty.", hint=param.help)
    if param.maximum is not None and len(value) > param.maximum:
        raise _Refused(
            f"has {len(value):,} characters, more than {param.maximum:,}.",
            hint="Shorten it, or split it over several requests.",
        )
    return _whole(value)


def _whole(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _Refused(
            f"has half a character (a lone surrogate) at position {error.start}."
        ) from None
    return text


def _texts(param: Param, value: Any) -> list[str]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, (list, tuple)):
        raise _Refused(f"must be a text or a list of texts, not {shown(value)}.")
    if param.required and not listed:
        raise _Refused("is an empty list.", hint=param.help)
    if param.items is not None and len(listed) > param.items:
        raise _Refused(
            f"has {len(listed):,} texts, more than {param.items:,}.",
            hint="Split the list over several requests.",
            kind=RequestTooLarge,
        )
    return [_one_of(param, text, place) for place, text in enumerate(listed)]


def _one_of(param: Param, text: Any, place: int) -> str:
    try:
        return _words(param, text)
    except _Refused as refused:
        raise _Refused(f"[{place}] {refused}", hint=refused.hint) from None


def _path(param: Param, value: Any) -> str:
    value = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(value, str):
        raise _Refused(f"must be a path, not {shown(value)}.")
    if not value.strip() or "\0" in value:
        raise _Refused("is no path." if value.strip() else "is an empty path.", hint=param.help)
    return _whole(value)


def _files(param: Param, value: Any) -> str | list[str]:
    """A file, or a list of them where the key takes several."""
    if not isinstance(value, (list, tuple)):
        return _file(param, value)
    if param.items is None:
        raise _Refused(f"is one file, not a list of {len(value)}.")
    if not value:
        raise _Refused("is an empty list.", hint=param.help)
    if len(value) > param.items:
        raise _Refused(f"has {len(value)} files, more than {param.items}.", kind=RequestTooLarge)
    return [_file(param, one) for one in value]


def _file(param: Param, value: Any) -> str:
    """A file that is there. Addresses (`data:`, `https://`) are for the family to read."""
    path = _path(param, value)
    if path.startswith("data:") or "://" in path:
        return path
    try:
        found = Path(path).is_file()
    except (OSError, ValueError) as error:
        raise _Refused(f"cannot be looked up: {error}.") from None
    if not found:
        raise _Refused(
            f"is {path[:300]!r}, " + ("a folder." if Path(path).is_dir() else "which is not there.")
        )
    return path


def _object(param: Param, value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            raise _Refused("is no JSON.", hint='Such as {"key": 1}.') from None
    if not isinstance(value, dict):
        raise _Refused(f"must be a mapping, not {shown(value)}.")
    return value


_TYPES: dict[str, Callable[[Param, Any], Any]] = {
    "text": _words,
    "texts": _texts,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "choice": _choice,
    "image": _files,
    "audio": _files,
    "path": _path,
    "object": _object,
}


def shown(value: Any) -> str:
    """A value in an error message: short, whatever it is."""
    if isinstance(value, float):
        return _text(value)
    if isinstance(value, str):
        return repr(value) if len(value) <= 60 else f"{value[:60]!r}…"
    if isinstance(value, (list, tuple, dict)):
        return f"a {type(value).__name__}"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a number of more than 38 digits"
    return repr(value)[:60]


def _text(number: int | float) -> str:
    """A number as people write it: 7.5, 20, 1e+30."""
    return f"{number:g}" if isinstance(number, float) else str(number)


def _unit(param: Param, number: int | float) -> str:
    return f"{_text(number)} {param.unit}" if param.unit else _text(number)


def _range(param: Param) -> str | None:
    """The valid range in words."""
    step = f" in steps of {_text(param.step)}" if param.step else ""
    if param.minimum is not None and param.maximum is not None:
        return f"Valid: {_text(param.minimum)} to {_unit(param, param.maximum)}{step}."
    if param.minimum is not None:
        return f"Valid: {_unit(param, param.minimum)} or more{step}."
    if param.maximum is not None:
        return f"Valid: {_unit(param, param.maximum)} or less{step}."
    return None

"""What a flight recorder wrote: a file that outlives the process, however that ends.

The first PAGE bytes hold the last call, written anew for each one: its number, where it stands, and
what it is as JSON. After them stand the first calls of each operator, a line of JSON each.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jumar.contracts.errors import InvalidInput

PAGE = 4096
_HEAD = struct.Struct("<QBH")  # number of the call, where it stands, bytes of JSON
_WRITING, _RUNNING, _RETURNED = 0, 1, 2


@dataclass(frozen=True)
class Call:
    """One call of an operator: shapes and dtypes of its tensors, and the layer it was made in.

    `source` is the call as Python, with `tensor(shape, dtype)` for each tensor and `device` where
    that is named; None where it is longer than a page. A call that has not `returned` is one that
    the process raised, died or hung in.
    """

    operator: str
    shapes: Sequence[Sequence[int]] = ()
    dtypes: Sequence[str] = ()
    layer: str | None = None
    source: str | None = None
    number: int = 0
    returned: bool = False

    def __str__(self) -> str:
        pairs = zip(self.dtypes, self.shapes, strict=True)
        tensors = ", ".join(f"{dtype}{list(shape)}" for dtype, shape in pairs)
        return f"{self.operator}({tensors})" + (f" in {self.layer}" if self.layer else "")


class Recording:
    """The writing end, in the process that is watched."""

    def __init__(self, path: str | Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        os.ftruncate(self._fd, PAGE)
        self._page = mmap.mmap(self._fd, PAGE)
        self._end = PAGE
        self._known: set[str] = set()
        self._number = 0

    def begin(self, call: Call) -> None:
        """Say which call comes now. What it is stands there before it may take the process down."""
        text = _text(call)
        if call.operator not in self._known:
            self._known.add(call.operator)
            self._end += os.pwrite(self._fd, text + b"\n", self._end)
        self._number += 1
        self._head(_WRITING, 0)
        self._page[_HEAD.size : _HEAD.size + len(text)] = text
        self._head(_RUNNING, len(text))

    def end(self) -> None:
        """Say that it has returned."""
        self._page[_HEAD.size - 3] = _RETURNED

    def close(self) -> None:
        """Let go of the file, which stays."""
        self._page.close()
        os.close(self._fd)

    def _head(self, state: int, length: int) -> None:
        _HEAD.pack_into(self._page, 0, self._number, state, length)


def last(path: str | Path) -> Call | None:
    """The last call of a recording; None where there was none, or it ended between two calls.

    Raises:
        InvalidInput: the file is no recording.
    """
    page = _read(path)[:PAGE]
    number, state, length = _HEAD.unpack_from(page)
    if state == _WRITING:
        return None
    call = _call(page[_HEAD.size : _HEAD.size + length], path)
    return replace(call, number=number, returned=state == _RETURNED)


def first_calls(path: str | Path) -> dict[str, Call]:
    """The first call of each operator that was called, in their order.

    Raises:
        InvalidInput: the file is no recording.
    """
    calls = [_call(line, path) for line in _read(path)[PAGE:].splitlines()]
    return {call.operator: call for call in calls}


def _read(path: str | Path) -> bytes:
    try:
        found = Path(path).read_bytes()
    except OSError as error:
        raise InvalidInput(f"The recording {path} cannot be read: {error.strerror}.") from error
    if len(found) < PAGE:
        raise InvalidInput(f"{path} is no recording: it has {len(found)} bytes.")
    return found


def _call(text: bytes, path: str | Path) -> Call:
    try:
        return Call(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise InvalidInput(f"{path} is no recording: {error}") from error


def _text(call: Call) -> bytes:
    """JSON that fits on the page: where need be without the source, then the last shapes."""
    fields = {name: value for name, value in vars(call).items() if value is not None}
    del fields["number"], fields["returned"]
    while len(text := json.dumps(fields).encode()) > PAGE - _HEAD.size:
        if fields.pop("source", None) is None:
            fields["shapes"], fields["dtypes"] = fields["shapes"][:-1], fields["dtypes"][:-1]
    return text

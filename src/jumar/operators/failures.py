"""Whose failure it was: an exception's traceback tells which implementation it came through.

>>> try:
...     model(x)
... except RuntimeError as error:
...     blame(error)
Blame(override=Override(operator='rms_norm', implementation='torch_npu'),
      shapes=((7, 64), (64,)), dtypes=('float16', 'float16'))

Nothing is wrapped for that: an implementation is known by the code of its function. An error that
a device tells late is found where it was told.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import CodeType, FrameType
from typing import Any, NamedTuple

from jumar.contracts.errors import InvalidValue
from jumar.evidence import Evidence, Subject, shape_class
from jumar.operators.base import Override

_known: dict[CodeType, Override] = {}
"""By the code of the functions that are bound, or that the dispatcher calls for an override."""


class Blame(NamedTuple):
    """The implementation that raised, and the tensors that it was given."""

    override: Override
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]


def remember(function: Callable[..., Any], override: Override) -> None:
    """Let tracebacks through this Python function be told.

    Raises:
        InvalidValue: its code is known as another implementation's.
    """
    code = function.__code__
    if _known.setdefault(code, override) != override:
        raise InvalidValue(
            f"{override} and {_known[code]} are one function: its failures could not be told apart."
        )


def blame(error: BaseException) -> Blame | None:
    """The innermost implementation that an exception, or one of its causes, came through."""
    found: Blame | None = None
    for frame in _frames(error):
        override = _known.get(frame.f_code)
        if override is not None:
            tensors = list(_tensors(_arguments(frame)))
            found = Blame(
                override,
                tuple(tuple(one.shape) for one in tensors),
                tuple(str(one.dtype).removeprefix("torch.") for one in tensors),
            )
    return found


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, here or in a cause: nobody's defect."""
    # torch's own OutOfMemoryError is a RuntimeError, and says it as the rest does.
    return any(
        isinstance(one, MemoryError)
        or (isinstance(one, RuntimeError) and "out of memory" in str(one).lower())
        for one in _causes(error)
    )


def evidence_of(error: BaseException, fingerprint: Mapping[str, str]) -> Evidence | None:
    """What an exception tells about an implementation; None where it came through none."""
    found = blame(error)
    if found is None:
        return None
    cause = list(_causes(error))[-1]
    floats = [one for one in found.dtypes if "float" in one] or list(found.dtypes) or ["*"]
    return Evidence(
        subject=Subject(
            operator=found.override.operator,
            implementation=found.override.implementation,
            shape_class=shape_class(found.shapes),
            dtype=floats[0],
        ),
        fingerprint=dict(fingerprint),
        verdict="out_of_memory" if is_out_of_memory(error) else "raises",
        reason=f"{type(cause).__name__}: {cause}",
        shapes=[list(shape) for shape in found.shapes],
        found_by="run",
        at=time.time(),
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and those that it was raised from, outermost first."""
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Frames from the outermost call to the innermost cause."""
    for one in _causes(error):
        for frame, _ in traceback.walk_tb(one.__traceback__):
            yield frame


def _arguments(frame: FrameType) -> list[Any]:
    """What the function was called with, in order."""
    code = frame.f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    return [frame.f_locals.get(name) for name in code.co_varnames[:count]]


def _tensors(values: Any) -> Iterator[Any]:
    import torch

    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, list | tuple):
        for one in values:
            yield from _tensors(one)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))

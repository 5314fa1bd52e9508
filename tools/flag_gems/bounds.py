"""Kernels that leave the memory of their arguments, told by the interpreter.

A store beside all arguments raises `OutOfBounds`. A load there gives NaN, or the largest whole
number, and is noted: on hardware it gives whatever lies there, or stops the core. Where
`GEMS_OUTSIDE` names a file, a line there names each kernel that loads outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter
from triton.runtime.interpreter import GridExecutor, InterpreterBuilder, TensorHandle


class OutOfBounds(Exception):
    """A kernel writes where none of its arguments is."""


class _Launch:
    """The kernel that runs, and where it may read and write; None where an argument does not say
    how long it is.
    """

    kernel = ""
    spans: list[tuple[int, int]] | None = None


def guard() -> None:
    """Watch every load and store from now on."""
    call, load, store = (
        GridExecutor.__call__,
        InterpreterBuilder.create_masked_load,
        InterpreterBuilder.create_masked_store,
    )

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        _Launch.kernel = f"{self.fn.__module__}.{self.fn.__name__}"
        _Launch.spans = _spans([*args, *kwargs.values()])
        call(self, *args, **kwargs)

    def checked_load(self: Any, ptrs: Any, mask: Any, *rest: Any) -> Any:
        outside = mask.data & _outside(ptrs)
        if not outside.any():
            return load(self, ptrs, mask, *rest)
        _note(int(outside.sum()))
        loaded = load(self, ptrs, TensorHandle(mask.data & ~outside, tl.int1), *rest)
        kind = loaded.data.dtype
        loaded.data[outside] = np.nan if kind.kind == "f" else np.iinfo(kind).max
        return loaded

    def checked_store(self: Any, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        if count := int((mask.data & _outside(ptrs)).sum()):
            raise OutOfBounds(f"{_Launch.kernel} writes {count} elements outside its arguments")
        return store(self, ptrs, value, mask, *rest)

    GridExecutor.__call__ = launch
    InterpreterBuilder.create_masked_load = checked_load
    InterpreterBuilder.create_masked_store = checked_store


def _spans(arguments: Iterable[Any]) -> list[tuple[int, int]] | None:
    """First and last address of the storages of all tensors."""
    spans = []
    for one in arguments:
        base = getattr(one, "_base", None)  # of a view, and of FlagGems' StridedBuffer
        tensor = one if base is None else base
        if hasattr(tensor, "data_ptr"):
            if not hasattr(tensor, "untyped_storage") or tensor.untyped_storage() is tensor:
                return None
            storage = tensor.untyped_storage()
            spans.append((storage.data_ptr(), storage.data_ptr() + storage.nbytes()))
    return spans


def _outside(ptrs: Any) -> Any:
    if _Launch.spans is None:
        return np.zeros_like(ptrs.data, dtype=bool)
    size = interpreter._get_np_dtype(ptrs.get_element_ty()).itemsize
    outside = np.ones_like(ptrs.data, dtype=bool)
    for first, end in _Launch.spans:
        if end - first >= size:
            outside &= (ptrs.data < first) | (ptrs.data > end - size)
    return outside


def _note(count: int) -> None:
    if path := os.environ.get("GEMS_OUTSIDE"):
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(f"{_Launch.kernel} {count}\n")

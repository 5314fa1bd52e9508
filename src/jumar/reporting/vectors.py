"""The rows of a small `.npy` file, and how alike they are, without numpy."""

from __future__ import annotations

import ast
import math
from array import array
from collections.abc import Sequence

_MAGIC = b"\x93NUMPY"
_CODES = {"<f4": "f", "<f8": "d"}

Vectors = list[Sequence[float]]


def rows_of(content: bytes) -> Vectors | None:
    """The rows of a C-ordered little-endian float array [n, d]; None for any other content.

    The layout: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
    """
    if content[:6] != _MAGIC:
        return None
    wide = content[6] > 1
    begin = 12 if wide else 10
    end = begin + int.from_bytes(content[8:begin], "little")
    try:
        header = ast.literal_eval(content[begin:end].decode("latin-1").strip())
        shape, code, fortran = header["shape"], _CODES[header["descr"]], header["fortran_order"]
    except (SyntaxError, ValueError, KeyError, TypeError):
        return None
    if fortran or len(shape) != 2:
        return None
    values = array(code, content[end:])
    count, width = shape
    if len(values) != count * width:
        return None
    return [values[row * width : (row + 1) * width] for row in range(count)]


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    """The cosine of the angle between two vectors; 0 where one has no length."""
    lengths = math.sqrt(sum(a * a for a in left)) * math.sqrt(sum(b * b for b in right))
    dot = sum(a * b for a, b in zip(left, right, strict=True))
    return dot / lengths if lengths else 0.0


def similarities(rows: Vectors) -> list[list[float]]:
    """The cosine of each row with each, [n, n]."""
    return [[cosine(left, right) for right in rows] for left in rows]

"""The functions of CANN's device library that FlagGems calls, for Triton's interpreter.

Each is computed by NumPy in float64 and rounded once, to the dtype of its first floating argument,
so that no wrong number comes from here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime.interpreter import TensorHandle, _get_np_dtype, interpreter_semantic


def _elementwise(function: Callable[..., Any], result: Any = None) -> Callable[..., Any]:
    """`function` of NumPy arrays as one of Triton's tensors; `result` is its dtype, if another."""

    def computed(*given: Any, **_: Any) -> Any:
        tensors = [interpreter_semantic.to_tensor(one) for one in given]
        dtypes = [one.dtype for one in tensors]
        dtype = result or next(filter(tl.dtype.is_floating, dtypes), dtypes[0])
        with np.errstate(all="ignore"):
            numbers = function(*(one.handle.data.astype(np.float64) for one in tensors))
            handle = TensorHandle(numbers.astype(_get_np_dtype(dtype)), dtype)
        block = any(one.type.is_block() for one in tensors)
        return tl.tensor(handle, tl.block_type(dtype, list(numbers.shape)) if block else dtype)

    return computed


def _toward_zero(left: Any, right: Any) -> Any:
    exact = left / right
    rounded = exact.astype(np.float32)
    return np.where(abs(rounded) > abs(exact), np.nextafter(rounded, np.float32(0)), rounded)


acos = _elementwise(np.arccos)
atan = _elementwise(np.arctan)
atan2 = _elementwise(np.arctan2)
div_rn = _elementwise(np.divide)
div_rz = _elementwise(_toward_zero)
erf = _elementwise(np.vectorize(math.erf, otypes=[np.float64]))
exp = _elementwise(np.exp)
exp2 = _elementwise(np.exp2)
fast_tanh = _elementwise(np.tanh)
finitef = isfinited = _elementwise(np.isfinite, tl.int1)
fmod = _elementwise(np.fmod)
isinf = _elementwise(np.isinf, tl.int1)
isnan = _elementwise(np.isnan, tl.int1)
log = _elementwise(np.log)
log2 = _elementwise(np.log2)
pow = _elementwise(np.power)  # noqa: A001
rint = _elementwise(np.rint)
rsqrt = _elementwise(lambda x: 1 / np.sqrt(x))
tan = _elementwise(np.tan)
tanh = _elementwise(np.tanh)
trunc = _elementwise(np.trunc)

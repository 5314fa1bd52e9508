"""`torch.autocast("npu")`: which operators run in the lower precision, which in float.

Names: what torch_npu 2.13.0 registers for autocast; those that models of Jumar's families use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

LOWER = (
    "_convolution",
    "addbmm",
    "addmm",
    "addmv",
    "addr",
    "baddbmm",
    "bmm",
    "chain_matmul",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d.input",
    "conv_transpose3d.input",
    "einsum",
    "linalg_multi_dot",
    "linear",
    "matmul",
    "mm",
    "mv",
    "prelu",
    "scaled_dot_product_attention",
)
FLOAT = (
    "acos",
    "asin",
    "binary_cross_entropy_with_logits",
    "cosh",
    "cosine_similarity",
    "cumprod",
    "cumsum",
    "dist",
    "erfinv",
    "exp",
    "expm1",
    "group_norm",
    "layer_norm",
    "linalg_vector_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "log_softmax.int",
    "logsumexp",
    "mse_loss",
    "native_layer_norm",
    "nll_loss",
    "norm.Scalar",
    "pow.Tensor_Scalar",
    "prod",
    "reciprocal",
    "rsqrt",
    "sinh",
    "smooth_l1_loss",
    "softmax.int",
    "softplus",
    "sum",
    "sum.dim_IntList",
    "tan",
)


def register() -> Any:
    """Register a casting kernel for each; the library has to be kept."""
    import torch

    library = torch.library.Library("aten", "IMPL")
    for names, dtype in ((LOWER, None), (FLOAT, torch.float32)):
        for name in names:
            packet, _, overload = name.partition(".")
            op = getattr(getattr(torch.ops.aten, packet), overload or "default")
            library.impl(name, _casting(op, dtype), "AutocastPrivateUse1")
    return library


def _casting(op: Callable[..., Any], dtype: Any) -> Callable[..., Any]:
    import torch

    key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        to = torch.get_autocast_dtype("npu") if dtype is None else dtype
        with torch._C._ExcludeDispatchKeyGuard(key):
            return op(*_cast(args, to), **{name: _cast(one, to) for name, one in kwargs.items()})

    return kernel


def _cast(value: Any, dtype: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        fits = value.is_floating_point() and value.device.type == "npu"
        return value.to(dtype) if fits and value.dtype != torch.float64 else value
    if isinstance(value, list | tuple):
        return type(value)(_cast(one, dtype) for one in value)
    return value

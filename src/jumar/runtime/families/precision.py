"""Which numbers a model computes with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.devices.base import Placement

if TYPE_CHECKING:
    import torch

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
"""Names in requests to names in torch."""


def dtype_for(asked: str | None, placement: Placement, usual: str | None = None) -> str:
    """The dtype's name: as asked, else what the family computes in everywhere, else the device's
    own default."""
    return asked or usual or placement.dtypes[0]


def torch_dtype(name: str) -> torch.dtype:
    """`bf16` → `torch.bfloat16`."""
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[name])
    return dtype

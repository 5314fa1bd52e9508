"""Which numbers a pipeline computes with."""

from __future__ import annotations

from typing import Any

from jumar.devices.base import Placement

DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
"""Names in requests to names in torch."""


def dtype_for(asked: str | None, placement: Placement) -> str:
    """The dtype's name: as asked, else fp32 on a CPU, bf16 where the device has it, else fp16."""
    if asked is not None:
        return asked
    kind = placement.device.kind
    if kind == "cpu":
        return "fp32"
    import torch

    has_bf16 = getattr(torch.get_device_module(kind), "is_bf16_supported", None)
    return "bf16" if has_bf16 is None or has_bf16() else "fp16"


def torch_dtype(name: str) -> Any:
    """`bf16` → `torch.bfloat16`."""
    import torch

    return getattr(torch, DTYPES[name])

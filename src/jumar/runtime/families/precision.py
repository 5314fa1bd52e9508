"""Which numbers a model computes with, where nobody asked for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.devices.base import Placement

if TYPE_CHECKING:
    import torch

_TORCH = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def torch_dtype(asked: str | None, placement: Placement, elsewhere: str = "fp16") -> torch.dtype:
    """As asked; else fp32 on a CPU, which is faster there, and `elsewhere` on other devices."""
    import torch

    name = asked or ("fp32" if placement.device.kind == "cpu" else elsewhere)
    dtype: torch.dtype = getattr(torch, _TORCH[name])
    return dtype

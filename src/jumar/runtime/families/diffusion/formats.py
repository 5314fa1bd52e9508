"""What diffusers' transformers compute in float64 or complex64, and what becomes of it on an NPU.

Not every operator of an NPU takes these. Nothing is cast here: what the library itself does there,
and what it leaves to the device, is told. Both tables are diffusers 0.42's own source, which
tests/runtime/families/test_diffusion_formats.py reads again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

NARROWED = frozenset(
    {
        "BriaTransformer2DModel",
        "Flux2Transformer2DModel",
        "FluxTransformer2DModel",
        "HiDreamImageTransformer2DModel",
        "OvisImageTransformer2DModel",
    }
)
"""Rotary frequencies in float64, which `maybe_adjust_dtype_for_device` makes fp32 on an NPU."""

COMPLEX = frozenset({"LuminaNextDiT2DModel", "QwenImageTransformer2DModel"})
"""Rotary embeddings as products of complex64, on the device that there is."""


def told_of_formats(components: Iterable[Any], kind: str) -> Iterator[str]:
    """What has to be said of a pipeline's components on a kind of device."""
    if kind != "npu":
        return
    for name in sorted({type(component).__name__ for component in components}):
        if name in NARROWED:
            yield f"{name}: diffusers computes rotary frequencies in fp32 on an NPU, not float64."
        elif name in COMPLEX:
            yield f"{name} multiplies complex64 numbers, which not every NPU's operators take."

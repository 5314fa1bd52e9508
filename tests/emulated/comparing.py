"""The same computation on the CPU and on an emulated card."""

from __future__ import annotations

import torch

CARD = "npu:0"


def equal(npu, cpu, tolerance=0.0):
    """`npu` lies on a card and holds what `cpu` holds."""
    assert npu.device.type == "npu"
    back = npu.cpu()
    assert (back.dtype, back.shape) == (cpu.dtype, cpu.shape)
    if tolerance:
        torch.testing.assert_close(back, cpu, atol=tolerance, rtol=tolerance)
    else:
        assert torch.equal(back, cpu), (back - cpu).abs().max()


def same(compute, *tensors, tolerance=0.0):
    """`compute` gives the same on both."""
    cpu = compute(*[one.clone() for one in tensors])
    npu = compute(*[one.clone().to(CARD) for one in tensors])
    for left, right in zip(_listed(npu), _listed(cpu), strict=True):
        equal(left, right, tolerance)


def _listed(result):
    return result if isinstance(result, (tuple, list)) else [result]

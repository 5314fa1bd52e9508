"""A card that refuses float64 and complex64, as many operators of NPUs do."""

from __future__ import annotations

import pytest
import torch
from tests.support import tiny_pipelines

from jumar.emulator import fault

WIDE = {"float64": "double", "complex64": "complex"}


@pytest.fixture
def refusing():
    """No operator of any card takes either."""
    (double, complex_) = (
        fault("*", "raise", text=text, dtype=dtype) for dtype, text in WIDE.items()
    )
    with double, complex_:
        yield


@pytest.mark.parametrize("dtype", WIDE)
@pytest.mark.usefixtures("refusing")
def test_the_card_does_refuse(dtype):
    with pytest.raises(RuntimeError, match="DT_"):
        torch.ones(2, dtype=getattr(torch, dtype)).to("npu:1").mul(2)


@pytest.mark.usefixtures("refusing")
def test_rotary_frequencies_of_flux_are_made_fp32_by_the_library():
    """The CPU, where the same frequencies are in float64, shows what that changes: little."""
    pipeline = tiny_pipelines.flux()
    ids = torch.arange(30.0).reshape(10, 3)
    rotary = pipeline.transformer.pos_embed
    for there, here in zip(rotary(ids.to("npu:1")), rotary(ids), strict=True):
        assert there.dtype == torch.float32
        torch.testing.assert_close(there.cpu(), here, atol=1e-5, rtol=0)

"""Noise is what another device may legally differ by, and no more."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st

from jumar.emulator import noise

COMPUTE = {
    "mm": lambda x: x @ x.t(),
    "addmm": lambda x: F.linear(x, x, x[0, : x.shape[0]]),
    "bmm": lambda x: torch.bmm(x[None], x.t()[None]),
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x[None], x.shape[0]),
    "sum": lambda x: x.sum(0),
    "mean": lambda x: x.mean(-1),
    "conv1d": lambda x: F.conv1d(x[None], x[None, :, :3]),
}
ULP = {torch.float32: 2**-23, torch.float16: 2**-10, torch.bfloat16: 2**-7}


def magnitude(name, x):
    """What the sums of `name` add up at most: the scale that a sum's error is measured on."""
    a = x.abs()
    if name in ("softmax", "layer_norm", "group_norm"):
        return COMPUTE[name](x).abs().max() + 1
    return COMPUTE[name](a).abs().max() + 1


@pytest.mark.parametrize("dtype", list(ULP))
@pytest.mark.parametrize("name", list(COMPUTE))
def test_noise_changes_bits_within_the_dtypes_bounds(name, dtype):
    x = torch.randn(24, 24, generator=torch.Generator().manual_seed(0)).to(dtype)
    exact = COMPUTE[name](x.double())
    with noise("on", seed=1):
        answers = [COMPUTE[name](x.to("npu:0")).cpu() for _ in range(4)]
    assert len({one.float().numpy().tobytes() for one in answers}) > 1
    # Two roundings, and for float a sum of 24 terms, each at most half a unit of the magnitude.
    bound = ULP[dtype] * float(magnitude(name, x.double())) * (16 if dtype is torch.float32 else 2)
    for one in answers:
        assert (one.double() - exact).abs().max() <= bound


@given(st.integers(0, 2**31), st.sampled_from(["on", "repeatable"]))
@settings(max_examples=20, deadline=None)
def test_what_a_dtype_holds_exactly_stays_exact(seed, mode):
    x = torch.randint(-8, 8, (16, 16), generator=torch.Generator().manual_seed(seed)).float()
    with noise(mode, seed=seed):
        npu = x.to("npu:0")
        assert torch.equal((npu @ npu).cpu(), x @ x)
        assert torch.equal(npu.sum(0).cpu(), x.sum(0))
        assert torch.equal(torch.ones(7, device="npu:0").mean().cpu(), torch.tensor(1.0))


def test_repeatable_noise_repeats_and_depends_on_the_seed():
    x = torch.randn(64, 64).to("npu:0")
    answers = {}
    for seed in (1, 2):
        with noise("repeatable", seed=seed):
            answers[seed] = (x @ x).cpu()
            assert torch.equal(answers[seed], (x @ x).cpu())
    assert not torch.equal(answers[1], answers[2])


def test_torchs_own_deterministic_mode_makes_it_repeatable():
    x = torch.randn(64, 64).to("npu:0")
    with noise("on", seed=3):
        assert any(not torch.equal(x @ x, x @ x) for _ in range(5))
        torch.use_deterministic_algorithms(True)
        try:
            assert torch.equal(x @ x, x @ x)
        finally:
            torch.use_deterministic_algorithms(False)


def test_the_same_seed_gives_the_same_run():
    x = torch.randn(64, 64).to("npu:0")
    runs = []
    for _ in range(2):
        with noise("on", seed=5):
            runs.append(torch.stack([(x @ x).cpu(), x.softmax(-1).cpu()]))
    assert torch.equal(*runs)


def test_whole_numbers_and_doubles_have_none():
    x = torch.randint(0, 9, (8, 8), device="npu:0")
    with noise("on"):
        assert torch.equal((x @ x).cpu(), x.cpu() @ x.cpu())
        assert torch.equal((x.double() @ x.double()).cpu(), x.cpu().double() @ x.cpu().double())

"""Rounding is no alarm; the smallest wrong numbers are one, in every dtype."""

from __future__ import annotations

import math
import random

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jumar.parity import compare
from jumar.parity.numeric import over_all

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def either_neighbour(exact: torch.Tensor, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Each number rounded to the next one above or below, drawn; exact ones stay."""
    near = exact.to(dtype)
    back = near.double()
    toward = torch.where(back < exact, math.inf, -math.inf).to(dtype)
    other = torch.nextafter(near, toward)
    draws = torch.rand(exact.shape, generator=seeded(seed)) < 0.5
    return torch.where(draws & (back != exact), other, near)


def scaled(right: torch.Tensor) -> torch.Tensor:
    return right * 1.01


def lanes(right: torch.Tensor) -> torch.Tensor:
    flat = right.clone().flatten()
    flat[::13] = flat.roll(1)[::13]
    return flat.view_as(right)


def a_tenth(right: torch.Tensor) -> torch.Tensor:
    flat = right.clone().flatten()
    places = random.Random(0).sample(range(flat.numel()), max(1, flat.numel() // 10))
    flat[places] *= 1.01
    return flat.view_as(right)


def zeroed(right: torch.Tensor) -> torch.Tensor:
    return torch.zeros_like(right)


def not_a_number(right: torch.Tensor) -> torch.Tensor:
    return torch.full_like(right, math.nan)


WRONG = (scaled, lanes, a_tenth, zeroed, not_a_number)
sizes = st.integers(1, 48)
seeds = st.integers(0, 2**31)
dtypes = st.sampled_from(DTYPES)


@given(seeds, dtypes, sizes, sizes)
@settings(max_examples=150, deadline=None)
def test_rounding_to_either_neighbour_is_no_mismatch(seed, dtype, rows, columns):
    exact = torch.randn(rows, columns, generator=seeded(seed)).double().exp()
    assert compare(exact, either_neighbour(exact, dtype, seed)) is None


@given(dtypes, st.integers(1, 4096), st.floats(0.001, 0.999), seeds)
@settings(max_examples=100, deadline=None)
def test_one_number_all_over_is_the_hardest_rounding_and_no_mismatch(dtype, count, fraction, seed):
    """Each of them is off by the same fraction: no averaging over fractions helps."""
    number = 1 + fraction * torch.finfo(dtype).eps
    exact = torch.full((count,), number, dtype=torch.float64)
    assert compare(exact, either_neighbour(exact, dtype, seed)) is None


@given(seeds, dtypes, st.integers(2, 2048), sizes)
@settings(max_examples=100, deadline=None)
def test_a_sum_in_another_order_is_no_mismatch(seed, dtype, terms, rows):
    a = torch.randn(rows, terms, generator=seeded(seed)).to(dtype)
    b = torch.randn(terms, 16, generator=seeded(seed + 1)).to(dtype)
    at = 1 + seed % (terms - 1) if terms > 2 else 1
    wide_a, wide_b = a.float(), b.float()
    got = (wide_a[:, at:] @ wide_b[at:] + wide_a[:, :at] @ wide_b[:at]).to(dtype)
    assert compare(a.double() @ b.double(), got, terms=terms) is None


@pytest.mark.parametrize("wrong", WRONG)
@given(seeds, dtypes, st.integers(24, 48), st.integers(24, 48))
@settings(max_examples=60, deadline=None)
def test_every_wrong_answer_is_a_mismatch(wrong, seed, dtype, rows, columns):
    exact = torch.randn(rows, columns, generator=seeded(seed)).double()
    assert compare(exact, wrong(either_neighbour(exact, dtype, seed))) is not None


@given(seeds, dtypes, st.integers(64, 1024))
@settings(max_examples=60, deadline=None)
def test_a_product_that_is_one_percent_too_large_is_a_mismatch(seed, dtype, terms):
    a = torch.randn(24, terms, generator=seeded(seed)).to(dtype)
    b = torch.randn(terms, 24, generator=seeded(seed + 1)).to(dtype)
    exact = a.double() @ b.double()
    right = exact.to(dtype)
    assert compare(exact, right, terms=terms) is None
    assert compare(exact, right * 1.01, terms=terms) is not None


def test_bfloat16_needs_the_bound_over_all():
    """One percent is within two units of each element: the control of the second bound."""
    exact = torch.linspace(1.0, 1.1, 512, dtype=torch.float64)
    found = compare(exact, (exact * 1.01).to(torch.bfloat16))
    assert found is not None
    assert found.wrong == 0
    assert found.rms > over_all(512)
    assert "together" in found.reason


def test_a_mismatch_names_the_worst_element():
    exact = torch.arange(1, 13, dtype=torch.float64).view(3, 4)
    got = exact.float()
    got[1, 2] = 7.5
    found = compare(exact, got)
    assert (found.index, found.wanted, found.got) == ((1, 2), 7.0, 7.5)
    assert (found.wrong, found.elements) == (1, 12)
    assert found.relative == pytest.approx(0.5 / 7)
    assert found.ulps == pytest.approx(0.5 / 2**-21)
    assert found.numbers()["index"] == "1,2"


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_whole_numbers_and_truth_have_to_be_equal(dtype):
    right = torch.tensor([[0, 1], [1, 0]], dtype=dtype)
    assert compare(right, right.clone()) is None
    found = compare(right, right.logical_not().to(dtype))
    assert found.index == (0, 0)
    assert found.wrong == 4


def test_nan_and_infinity_stand_where_they_belong():
    right = torch.tensor([math.nan, math.inf, -math.inf, 1.0], dtype=torch.float64)
    assert compare(right, right.float()) is None
    for place, number in ((0, 1.0), (1, -math.inf), (2, math.nan), (3, math.inf)):
        got = right.float()
        got[place] = number
        found = compare(right, got)
        assert found.index == (place,)
        assert found.numbers()["got"] in (number, str(number))


def test_what_the_dtype_cannot_hold_is_infinity():
    exact = torch.tensor([1e5, -1e5, 65504.0, 65519.0], dtype=torch.float64)
    assert compare(exact, exact.half()) is None
    assert compare(exact, torch.tensor([1e5, -1e5, 65504.0, math.inf]).half()) is None
    found = compare(exact, torch.tensor([65504.0, -1e5, 65504.0, 65504.0]).half())
    assert found.index == (0,), "a saturated number is another number"


def test_what_is_smaller_than_a_normal_float_may_be_zero():
    exact = torch.tensor([1e-40, 1.0], dtype=torch.float64)
    assert compare(exact, torch.tensor([0.0, 1.0])) is None
    assert compare(exact, torch.tensor([1e-30, 1.0])) is None, "below an ULP of what was summed"
    assert compare(exact[:1], torch.tensor([1e-30])).index == (0,)


def test_zero_wanted_and_something_else_got():
    found = compare(torch.zeros(4, dtype=torch.float64), torch.tensor([0.0, 0.0, 1e-3, 0.0]))
    assert found.index == (2,)
    assert found.numbers()["relative"] == "inf"


@pytest.mark.parametrize(
    ("wanted", "got", "reason"),
    [
        (torch.zeros(2).double(), torch.zeros(3), "shape"),
        (torch.zeros(2).double(), torch.zeros(2, dtype=torch.int64), "int64"),
        (torch.zeros(2, dtype=torch.bool), torch.zeros(2), "float32"),
    ],
)
def test_another_shape_or_dtype_is_a_mismatch(wanted, got, reason):
    assert reason in compare(wanted, got).reason


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64, torch.int64])
def test_nothing_is_right(dtype):
    wanted = torch.zeros(0, 3, dtype=torch.float64 if dtype.is_floating_point else dtype)
    assert compare(wanted, torch.zeros(0, 3, dtype=dtype)) is None


def test_complex_numbers_are_compared_by_their_parts():
    exact = torch.randn(8, dtype=torch.complex128, generator=seeded(1))
    assert compare(exact, exact.to(torch.complex64)) is None
    assert compare(exact, exact.to(torch.complex64) * 1.01) is not None


@given(seeds, st.sampled_from([torch.float16, torch.bfloat16]))
@settings(max_examples=40, deadline=None)
@example(0, torch.bfloat16)
def test_a_witness_excuses_what_it_does_itself_and_nothing_else(seed, dtype):
    """x - mean(x) far from zero magnifies rounding: a kernel that keeps the mean narrow does so."""
    x = (torch.randn(256, generator=seeded(seed)) * 0.1 + 8).to(dtype)
    exact = x.double() - x.double().mean()
    narrow = x - x.mean()
    off = narrow + (x.mean() * torch.finfo(dtype).eps)
    assert compare(exact, off) is not None
    assert compare(exact, off, witness=off) is None
    assert compare(exact, scaled(exact.to(dtype)), witness=exact.to(dtype)) is not None


def test_a_rougher_multiplier_is_told_not_assumed():
    a, b = (torch.randn(32, 32, generator=seeded(seed)) for seed in (1, 2))
    coarse = a.bfloat16().float() @ b.bfloat16().float()
    exact = a.double() @ b.double()
    assert compare(exact, coarse, terms=32) is not None
    assert compare(exact, coarse, terms=32, unit_roundoff=2**-8) is None

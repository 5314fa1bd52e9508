"""The real FlagGems by its provider, in Triton's interpreter: `make flag-gems` runs these.

In the ordinary environment there is neither FlagGems nor Triton, and they are skipped.
"""

from __future__ import annotations

import os

import pytest

if os.environ.get("TRITON_INTERPRET") != "1":
    pytest.skip("runs in Triton's interpreter: make flag-gems", allow_module_level=True)

import torch

flag_gems = pytest.importorskip("flag_gems")
triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402
from tests.operators.agreeing import agree  # noqa: E402

from jumar.operators.base import Override  # noqa: E402
from jumar.operators.layers import Draw, layer_operator  # noqa: E402
from jumar.operators.overrides import installed  # noqa: E402
from jumar.operators.providers import provider  # noqa: E402


@triton.jit
def corner(source, target, rows, columns, stride, side: tl.constexpr):
    down, right = tl.arange(0, side)[:, None], tl.arange(0, side)[None, :]
    mask = down < rows and not (right >= columns)
    tl.store(target + down * stride + right, tl.load(source + down * stride + right), mask=mask)


@triton.jit
def doubled(source, target, size: tl.constexpr):
    place = tl.arange(0, size)
    tl.store(target + place, 2 * tl.load(source + place))


def test_the_table_that_is_read_from_its_source_is_the_one_that_it_has():
    from jumar.operators.catalogue import live

    read = {
        (one.operator, one.function)
        for one in live().implementations
        if one.provider == "flag_gems" and "::" in one.operator
    }
    assert read == {(f"aten::{one[0]}", one[1].__name__) for one in flag_gems._FULL_CONFIG}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    "name", ["silu_and_mul", "gelu_and_mul", "rms_norm", "rotary_embedding", "topk_softmax"]
)
def test_its_layer_operators_compute_the_formula(name, dtype):
    layer = layer_operator(name)
    function = provider("flag_gems").layers()[name].make()
    for case in layer.cases(Draw(dtype)):
        agree(layer, function, case, dtype, device="npu:0")


def test_an_override_by_one_of_its_functions_is_live():
    x = torch.randn(3, 5)
    with installed({Override("aten::tanh", "flag_gems")}, device="npu"):
        assert torch.allclose(x.npu().tanh().cpu(), x.tanh(), atol=1e-6)


def test_its_kernels_join_masks_element_by_element():
    target = torch.zeros(4, 4, device="npu")
    corner[(1,)](torch.ones(4, 4, device="npu"), target, 2, 3, 4, side=4)
    wanted = torch.zeros(4, 4)
    wanted[:2, :3] = 1
    assert torch.equal(target.cpu(), wanted)


def test_a_kernel_that_writes_outside_its_arguments_is_stopped():
    with pytest.raises(Exception, match="doubled writes 3 elements outside its arguments"):
        doubled[(1,)](torch.ones(8, device="npu"), torch.zeros(5, device="npu"), size=8)
    whole = torch.zeros(8, device="npu")
    doubled[(1,)](torch.ones(8, device="npu"), whole, size=8)
    assert whole.tolist() == [2.0] * 8


def test_what_a_kernel_reads_outside_its_arguments_is_no_number_and_noted(tmp_path, monkeypatch):
    monkeypatch.setenv("GEMS_OUTSIDE", str(tmp_path / "outside"))
    target = torch.zeros(8, device="npu")
    doubled[(1,)](torch.ones(6, device="npu"), target, size=8)
    assert target[:6].tolist() == [2.0] * 6 and bool(target[6:].isnan().all())
    assert (tmp_path / "outside").read_text().split()[-1] == "2"

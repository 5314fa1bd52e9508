"""The provider of FlagGems calls it as its source is written (5.0.2, and August 2026's 5.3).

A package of the same name stands in for it here, with its functions' signatures and semantics in
plain torch: that the calls are right is shown, not that Triton's kernels are.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.operators.agreeing import agree

from jumar.contracts.errors import OperatorUnavailable
from jumar.operators.base import Override
from jumar.operators.layers import Draw, layer_operator
from jumar.operators.overrides import installed
from jumar.operators.providers import unfit
from jumar.operators.providers.flag_gems import FlagGems

STAND_IN = {
    "__init__": """
from flag_gems import runtime
from flag_gems.fused import *
from flag_gems.ops import *
def tanh(A): return A.new_full(A.shape, 5.0)
def sigmoid_too_new(A): raise AssertionError
def sigmoid(A): return A.new_full(A.shape, 6.0)
_FULL_CONFIG = (
    ("tanh", tanh),
    ("sigmoid", sigmoid_too_new, lambda: False),
    ("sigmoid", sigmoid, lambda: True, ("AutogradCUDA",)),
)
""",
    "runtime": """
class device: support_fp64, support_bf16, support_int64 = False, True, True
""",
    "ops": """
import torch
def rms_norm(x, normalized_shape, weight, eps=1e-5):
    scale = torch.rsqrt(x.float().square().mean(-1, keepdim=True) + eps)
    return (x.float() * scale * weight.float()).to(x.dtype)
""",
    "fused": """
from typing import Optional
import torch
import torch.nn.functional as F
from flag_gems.ops import rms_norm
from jumar.operators.providers import reference

def silu_and_mul(A, B):
    return (F.silu(A.float()) * B.float()).to(A.dtype)

def gelu_and_mul(x, y, approximate="none"):
    return (F.gelu(x.float(), approximate=approximate) * y.float()).to(x.dtype)

def fused_add_rms_norm(x, residual, normalized_shape, weight, eps=1e-5):
    total = x.float() + residual.float()
    residual.copy_(total)
    scale = torch.rsqrt(total.square().mean(-1, keepdim=True) + eps)
    x.copy_(total * scale * weight.float())
    return x, residual

def apply_rotary_pos_emb(
    q, k, cos, sin, position_ids: Optional[torch.IntTensor] = None,
    rotary_interleaved: bool = False, inplace: bool = False,
):
    assert cos.shape[-1] * 2 == q.shape[-1] and position_ids.shape == q.shape[:-2]
    angles = cos[position_ids], sin[position_ids]
    return reference.rotary_embedding(q, k, *angles, rotary_interleaved)

def topk_softmax(
    topk_weights: torch.Tensor, topk_indices: torch.Tensor, token_expert_indices: torch.Tensor,
    gating_output: torch.Tensor, renormalize: bool = False,
) -> None:
    weights, experts = gating_output.float().softmax(-1).topk(topk_weights.size(-1), -1)
    topk_weights.copy_(weights / weights.sum(-1, keepdim=True) if renormalize else weights)
    topk_indices.copy_(experts)

def moe_align_block_size(
    topk_ids: torch.Tensor, block_size: int, num_experts: int,
    expert_map: Optional[torch.Tensor] = None, pad_sorted_ids: bool = False,
):
    return reference.moe_align_block_size(topk_ids, block_size, num_experts)

def moe_sum(input: torch.Tensor, output: torch.Tensor):
    output.copy_(input.float().sum(1))

def outplace_fused_experts(
    hidden_states: torch.Tensor, w1: torch.Tensor, w2: torch.Tensor, topk_weights: torch.Tensor,
    topk_ids: torch.Tensor, activation: str = "silu", apply_router_weight_on_input: bool = False,
) -> torch.Tensor:
    assert activation == "silu" and not apply_router_weight_on_input
    return reference.fused_moe(hidden_states, w1, w2, topk_weights, topk_ids)
""",
}
LAYERS = sorted(FlagGems().layers())


@pytest.fixture
def gems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    import sys

    package = tmp_path / "flag_gems"
    package.mkdir()
    for name, text in STAND_IN.items():
        (package / f"{name}.py").write_text(text)
    (tmp_path / "triton.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [one for one in sys.modules if one.split(".")[0] in ("flag_gems", "triton")]:
        monkeypatch.delitem(sys.modules, name)
    yield FlagGems()
    for name in [one for one in sys.modules if one.split(".")[0] in ("flag_gems", "triton")]:
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_its_layer_operators_compute_the_formula_and_keep_their_arguments(gems, name, dtype):
    layer = layer_operator(name)
    function = gems.layers()[name].make()
    for case in layer.cases(Draw(dtype)):
        agree(layer, function, case, dtype)


def test_it_has_all_layer_operators_but_attention():
    assert len(LAYERS) == 8 and "attention_backend" not in LAYERS


def test_its_registrar_gives_the_functions_that_are_meant_for_this_torch(gems):
    functions = gems.functions()
    assert set(functions) == {"aten::tanh", "aten::sigmoid"}
    kernels = {name: one.make() for name, one in functions.items()}
    both = {Override(name, "flag_gems") for name in functions}
    with installed(both, device="cpu", lookup=lambda one: kernels[one.operator]):
        assert torch.zeros(1).tanh().item() == 5
        assert torch.zeros(1).sigmoid().item() == 6


def test_it_is_not_for_the_cpu(gems):
    assert gems.unavailable() is None
    for one in (*gems.layers().values(), *gems.functions().values()):
        assert unfit(one, "cpu", "float32", {}) == "is for cuda and npu"
    with (
        pytest.raises(OperatorUnavailable, match="is for cuda and npu"),
        installed({Override("aten::tanh", "flag_gems")}, device="cpu"),
    ):
        pass


def test_it_computes_the_dtypes_that_it_says_the_chip_has(gems):
    tanh = gems.functions()["aten::tanh"]
    assert unfit(tanh, "npu", "int64", {}) is None
    assert unfit(tanh, "npu", "float64", {}) == f"computes {', '.join(tanh.dtypes)}"


def test_without_triton_it_says_what_is_missing(gems, tmp_path, monkeypatch):
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "triton" else real(name)
    )
    assert gems.unavailable() == "triton is not installed"


def test_an_import_that_fails_is_told(gems, tmp_path):
    (tmp_path / "flag_gems" / "__init__.py").write_text("raise RuntimeError('no device found')")
    assert gems.unavailable() == "flag_gems does not import: RuntimeError: no device found"

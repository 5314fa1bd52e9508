"""torch_npu's fused kernels, on the emulated NPU, called as the real schemas say."""

from __future__ import annotations

import pytest
import torch
from tests.operators.agreeing import agree

from jumar.contracts.errors import OperatorUnavailable
from jumar.devices import accelerators
from jumar.emulator import fault, record
from jumar.operators.binding import Bindings
from jumar.operators.layers import Draw, layer_operator
from jumar.operators.providers import provider

KERNELS = {
    "silu_and_mul": {"npu::npu_swiglu"},
    "gelu_and_mul": {"npu::npu_geglu"},
    "rms_norm": {"npu::npu_rms_norm", "npu::npu_add_rms_norm"},
    "rotary_embedding": {"npu::npu_rotary_mul"},
    "topk_softmax": {"npu::npu_moe_gating_top_k_softmax"},
}


def bound(name, dtype="float32", by="torch_npu"):
    here = accelerators()["npu"].fingerprint()
    return Bindings({name: by}, "npu:0", here).bind(name, dtype)


def test_it_is_available_on_an_npu():
    assert provider("torch_npu").unavailable() is None
    assert set(provider("torch_npu").layers()) == {*KERNELS, "attention_backend"}


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_computes_the_formula(name, dtype):
    layer = layer_operator(name)
    function = bound(name, dtype)
    with record() as called:
        for case in layer.cases(Draw(dtype)):
            agree(layer, function, case, dtype, "npu:0")
    assert KERNELS[name] <= set(called)


@pytest.mark.parametrize("name", KERNELS)
def test_a_wrong_kernel_is_noticed(name):
    layer = layer_operator(name)
    function = bound(name)
    kernel = min(KERNELS[name], key=len).removeprefix("npu::")
    case = next(layer.cases(Draw("float32")))
    with fault(kernel, "wrong"), pytest.raises(AssertionError):
        agree(layer, function, case, "float32", "npu:0")


@pytest.mark.parametrize(
    "name", ["silu_and_mul", "rms_norm", "rotary_embedding", "moe_align_block_size", "fused_moe"]
)
def test_the_reference_runs_on_the_device_too(name):
    layer = layer_operator(name)
    function = bound(name, by="reference")
    for case in layer.cases(Draw("float32")):
        agree(layer, function, case, "float32", "npu:0")


def test_the_arguments_of_a_kernel_that_adds_stay_as_they_were():
    x, residual = torch.ones(2, 8, device="npu"), torch.ones(2, 8, device="npu")
    bound("rms_norm")(x, torch.ones(8, device="npu"), 1e-6, residual)
    assert torch.equal(x, torch.ones_like(x)) and torch.equal(residual, torch.ones_like(x))


def test_attention_for_vllm_is_a_class_path():
    assert bound("attention_backend")() == "jumar.vllm.attention.ascend.AscendBackend"
    with pytest.raises(OperatorUnavailable, match="Latent attention"):
        bound("attention_backend")(use_mla=True)


@pytest.mark.parametrize("chip", ["Ascend310P3", "Ascend910A", "Ascend950PR"])
def test_chips_that_no_page_of_the_vendor_names_are_left_to_the_next(chip):
    order = {"silu_and_mul": ("torch_npu", "reference")}
    here = Bindings(order, "npu:0", {"chip": chip})
    here.bind("silu_and_mul", "float16")
    assert here.bound == {"silu_and_mul": "reference"}
    alone = Bindings({"silu_and_mul": "torch_npu"}, "npu:0", {"chip": chip})
    with pytest.raises(OperatorUnavailable, match=f"needs chip .* it is {chip}"):
        alone.bind("silu_and_mul", "float16")


@pytest.mark.parametrize("name", KERNELS)
def test_a_graph_holds_a_bound_kernel_without_a_break(name):
    function = bound(name)
    case = next(layer_operator(name).cases(Draw("float32")))
    args = [one.to("npu:0") if isinstance(one, torch.Tensor) else one for one in case.args]
    compiled = torch.compile(function, fullgraph=True, backend="eager", dynamic=False)
    plain = function(*args, **case.kwargs)
    torch.testing.assert_close(compiled(*args, **case.kwargs), plain, rtol=0, atol=0)

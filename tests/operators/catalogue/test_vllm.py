"""vLLM's registrations, read from packages that register as its versions 0.24 and 0.33 do."""

from __future__ import annotations

import sys
from types import ModuleType

from tests.operators.catalogue import peers

from jumar.operators.catalogue import vllm

FILES = {
    "model_executor/layers/activation.py": '@CustomOp.register("silu_and_mul")\n'
    "class SiluAndMul(CustomOp):\n    pass\n",
    "model_executor/layers/moe.py": '@PluggableLayer.register("routed_experts")\n'
    "class RoutedExperts(PluggableLayer):\n    pass\n"
    "atexit.register(print)\n",
    "ir/ops/layernorm.py": "@register_op\ndef rms_norm(x, weight, epsilon):\n    return x\n\n\n"
    "@rms_norm.register_input_generator\ndef inputs():\n    pass\n\n\n"
    "@register_op(allow_inplace=True)\ndef fused_add_rms_norm(x, x_residual):\n    return x\n",
    "kernels/vllm_c.py": '@ir.ops.rms_norm.register_impl(\n    "vllm_c", supported=CUDA_ALIKE\n)\n'
    "def rms_norm(x, weight, epsilon):\n    return x\n",
}


def test_layer_operators_are_named_by_their_registration(tmp_path):
    found = vllm.read(peers.write(tmp_path / "vllm", FILES), "0.24.0")
    layers = {one.operator: one for one in found.implementations if one.key == "layer"}
    assert {name: one.function for name, one in layers.items()} == {
        "silu_and_mul": "SiluAndMul",
        "routed_experts": "RoutedExperts",
    }
    assert layers["silu_and_mul"].origin == "vllm.model_executor.layers.activation"
    assert found.operators["silu_and_mul"].kind == "layer"
    assert found.versions == {"vllm": "0.24.0"}


def test_operators_of_the_intermediate_representation_have_their_providers(tmp_path):
    found = vllm.read(peers.write(tmp_path / "vllm", FILES))
    assert {(one.operator, one.provider) for one in found.implementations if one.key == "ir"} == {
        ("vllm_ir::rms_norm", "vllm"),
        ("vllm_ir::rms_norm", "vllm_c"),
        ("vllm_ir::fused_add_rms_norm", "vllm"),
    }
    assert found.operators["vllm_ir::rms_norm"].kind == "ir"


def test_layers_that_a_plugin_put_in_their_place_are_the_plugins(monkeypatch):
    in_tree = type("RMSNorm", (), {"name": "rms_norm"})
    theirs = type("AscendRMSNorm", (in_tree,), {"__module__": "acme.ops", "name": "RMSNorm"})
    registry = ModuleType("vllm.model_executor.custom_op")
    registry.op_registry = {"rms_norm": in_tree}
    registry.op_registry_oot = {"RMSNorm": theirs}
    monkeypatch.setitem(sys.modules, registry.__name__, registry)
    found = vllm.replaced()
    assert [(one.operator, one.provider, one.function) for one in found.implementations] == [
        ("rms_norm", "acme", "AscendRMSNorm")
    ]
    assert found.operators["rms_norm"].kind == "layer"

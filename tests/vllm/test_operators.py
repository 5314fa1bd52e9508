"""vLLM's layers hold what the policy decided, compute what vLLM's own code does, and say so."""

from __future__ import annotations

import dis
import logging
import os
import time

import pytest

pytest.importorskip("vllm")

import torch
from hypothesis import given
from hypothesis import strategies as st
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.model_executor.custom_op import op_registry_oot
from vllm.model_executor.layers import activation
from vllm.model_executor.layers import rotary_embedding as rotary
from vllm.model_executor.layers.layernorm import GemmaRMSNorm, RMSNorm
from vllm.v1.serial_utils import MsgpackDecoder, MsgpackEncoder

from jumar.contracts.errors import InvalidValue, OperatorUnavailable, RunFailed
from jumar.evidence import Evidence, Store, Subject
from jumar.operators.base import Override
from jumar.operators.layers import layer_operators
from jumar.operators.overrides import live
from jumar.vllm import operators
from jumar.vllm.operators import aten, process
from jumar.vllm.operators.layers import axes
from vllm import ir

EMULATED = bool(os.environ.get("JUMAR_EMULATE_NPU"))
DEVICE = "npu:0" if EMULATED else "cpu"
OURS = "torch_npu" if EMULATED else "reference"
ON_NPU = pytest.mark.skipif(not EMULATED, reason="needs the emulated NPU")
ON_CPU = pytest.mark.skipif(EMULATED, reason="the NPU has a reference to go to")
TOLERANCE = {"float32": {"rtol": 1e-5, "atol": 1e-5}, "bfloat16": {"rtol": 3e-2, "atol": 3e-2}}
CUMSUM = Override("aten::cumsum", "reference")
DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])


@pytest.fixture(autouse=True)
def engine(monkeypatch, tmp_path):
    """An engine that has just set its device, with a store of evidence of its own."""
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path / "evidence"))
    with set_current_vllm_config(VllmConfig()), torch.device(DEVICE):
        operators.bind(DEVICE)
        yield
        aten.end()


@pytest.fixture
def in_dtype():
    """`in_dtype("bfloat16")`: layers are built and numbers drawn in that dtype from then on."""
    before = torch.get_default_dtype()
    torch.manual_seed(0)
    yield lambda name: torch.set_default_dtype(getattr(torch, name))
    torch.set_default_dtype(before)


def found_wrong(operator, implementation):
    """Evidence, as the lab would write it here, that an implementation is wrong."""
    record = Evidence(
        subject=Subject(operator=operator, implementation=implementation),
        fingerprint=process.here().fingerprint,
        verdict="wrong",
        reason="off by 3",
        found_by="shadow",
        at=time.time(),
    )
    Store().add(record)
    return record


def close(one, other, dtype):
    torch.testing.assert_close(one, other, **TOLERANCE[dtype])


def golden(name, *args, **kwargs):
    """By the formula in float64, on the CPU."""
    return layer_operators()[name].golden(*args, **kwargs)


# the numbers


@DTYPES
def test_gated_activations_compute_what_vllm_does(in_dtype, dtype):
    in_dtype(dtype)
    x = torch.randn(7, 2 * 96)
    silu = activation.SiluAndMul()
    close(silu(x), activation.SiluAndMul.forward_native(x), dtype)
    close(silu(x).cpu().double(), golden("silu_and_mul", x), dtype)
    for approximate in ("none", "tanh"):
        gelu = activation.GeluAndMul(approximate)
        close(gelu(x), gelu.forward_native(x), dtype)
        close(gelu(x).cpu().double(), golden("gelu_and_mul", x, approximate), dtype)


@DTYPES
def test_norms_compute_what_vllm_does(in_dtype, dtype):
    in_dtype(dtype)
    layer = RMSNorm(64, eps=1e-5)
    torch.nn.init.normal_(layer.weight)
    x, residual = torch.randn(5, 64), torch.randn(5, 64)
    native = ir.ops.rms_norm.impls["native"].impl_fn
    native_sum = ir.ops.fused_add_rms_norm.impls["native"].impl_fn
    close(layer(x), native(x, layer.weight, 1e-5), dtype)
    close(layer(x).cpu().double(), golden("rms_norm", x, layer.weight, 1e-5), dtype)
    normalised, total = layer(x.clone(), residual.clone())
    expected, expected_total = native_sum(x, residual, layer.weight, 1e-5)
    close(normalised, expected, dtype)
    close(total, expected_total, dtype)


@DTYPES
@pytest.mark.parametrize("neox", [True, False])
@pytest.mark.parametrize("turned", [64, 32])
def test_rotary_positions_compute_what_vllm_does(in_dtype, dtype, neox, turned):
    in_dtype(dtype)
    of = {"rope_theta": 10000.0, "partial_rotary_factor": turned / 64}
    layer = rotary.get_rope(64, 128, neox, rope_parameters=of)
    positions, query, key = torch.arange(9).flip(0), torch.randn(9, 4 * 64), torch.randn(9, 2 * 64)
    expected = layer.forward_native(positions, query.clone(), key.clone())
    found = layer(positions, query.clone(), key.clone())
    close(found[0], expected[0], dtype)
    close(found[1], expected[1], dtype)
    cos, sin = layer.cos_sin_cache[positions].chunk(2, -1)
    heads = query.view(9, 4, 64), key.view(9, 2, 64)
    by_formula = golden("rotary_embedding", *heads, cos, sin, interleaved=not neox)
    close(found[0].view(9, 4, 64).cpu().double(), by_formula[0], dtype)
    alone, no_key = layer(positions, query.clone())
    close(alone, expected[0], dtype)
    assert no_key is None


SCALED = {
    "linear": {"factor": 2.0},
    "llama3": {
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    },
    "yarn": {"factor": 4.0, "original_max_position_embeddings": 64},
    "dynamic": {"factor": 2.0},
}


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_rotary_positions_are_no_exception(kind):
    of = {"rope_type": kind, "rope_theta": 10000.0, **SCALED[kind]}
    layer = rotary.get_rope(64, 64, True, rope_parameters=of)
    assert layer.implementation is process.here().hold("rotary_embedding")
    positions, query, key = torch.arange(9), torch.randn(9, 4 * 64), torch.randn(9, 2 * 64)
    expected = layer.forward_native(positions, query.clone(), key.clone())
    close(layer(positions, query, key)[0], expected[0], "float32")


@DTYPES
@pytest.mark.parametrize("interleaved", [False, True])
def test_positions_on_three_axes_compute_what_vllm_does(in_dtype, dtype, interleaved):
    in_dtype(dtype)
    of = {"rope_theta": 10000.0, "mrope_section": [16, 8, 8], "mrope_interleaved": interleaved}
    layer = rotary.get_rope(64, 128, True, rope_parameters=of)
    query, key = torch.randn(9, 4 * 64), torch.randn(9, 2 * 64)
    for positions in (torch.randint(0, 100, (3, 9)), torch.arange(9)):
        expected = layer.forward_native(positions, query.clone(), key.clone())
        found = layer(positions, query.clone(), key.clone())
        close(found[0], expected[0], dtype)
        close(found[1], expected[1], dtype)


@given(st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12)))
def test_every_pair_of_a_head_is_turned_by_the_axis_that_vllm_takes(section):
    sizes = [max(section), *section[1:]]  # height and width take turns with time: it has as many
    pairs = sum(sizes)
    columns = torch.arange(3.0, device="cpu").view(3, 1).expand(3, pairs)
    from vllm.model_executor.layers.rotary_embedding.mrope import apply_interleaved_rope

    assert axes(sizes, interleaved=True) == apply_interleaved_rope(columns, sizes).tolist()
    blocks = [part[axis] for axis, part in enumerate(columns.split(sizes, dim=-1))]
    assert axes(sizes, interleaved=False) == torch.cat(blocks).tolist()


def test_an_operator_that_was_swapped_is_seen_by_these_comparisons():
    x, layer = torch.randn(7, 2 * 96), activation.SiluAndMul()
    layer.implementation = process.here().hold("gelu_and_mul")
    with pytest.raises(AssertionError, match="not close"):
        close(layer(x), activation.SiluAndMul.forward_native(x), "float32")


def test_norms_that_the_operator_does_not_have_are_vllms_own(in_dtype):
    in_dtype("bfloat16")
    x, native = torch.randn(5, 64), ir.ops.rms_norm.impls["native"].impl_fn
    weightless, part = RMSNorm(64, has_weight=False), RMSNorm(64, var_hidden_size=32)
    wide = RMSNorm(64, dtype=torch.float32)
    close(weightless(x), native(x, None, 1e-6), "bfloat16")
    close(part(x), native(x, part.weight, 1e-6, 32), "bfloat16")
    close(wide(x), native(x, wide.weight, 1e-6), "bfloat16")
    assert not any(hasattr(one, "implementation") for one in (weightless, part, wide))


# what a layer holds


def test_a_layer_holds_the_implementation_itself():
    silu, norm = activation.SiluAndMul(), RMSNorm(64)
    assert silu.implementation is activation.SiluAndMul().implementation
    assert norm.implementation is process.here().hold("rms_norm", "float32")
    assert silu.implementation.__module__ == f"jumar.operators.providers.{OURS}"


def test_nothing_is_looked_up_between_a_layer_and_its_implementation():
    read = {
        one.argval
        for one in dis.get_instructions(type(activation.SiluAndMul()).forward_oot)
        if one.opname.startswith("LOAD") and isinstance(one.argval, str)
    }
    assert read == {"self", "x", "implementation"}


@ON_CPU
@pytest.mark.parametrize("make", [activation.SiluAndMul, lambda: RMSNorm(64)])
def test_no_graph_breaks_at_a_layer(make):
    layer, x = make(), torch.randn(5, 64)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x), layer(x))


@ON_CPU
def test_no_graph_breaks_at_rotary_positions():
    layer = rotary.get_rope(64, 128, rope_parameters={"rope_theta": 10000.0})
    positions, query, key = torch.arange(5), torch.randn(5, 256), torch.randn(5, 128)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found, expected = compiled(positions, query, key), layer(positions, query, key)
    torch.testing.assert_close(found, expected)


def test_norms_of_other_classes_come_through_vllms_intermediate_representation():
    layer, x = GemmaRMSNorm(64), torch.randn(5, 64)
    torch.nn.init.normal_(layer.weight)
    expected = ir.ops.rms_norm.impls["native"].impl_fn(x, layer.weight + 1, 1e-6)
    with ir.ops.rms_norm.set_priority([operators.IR_PROVIDER, "native"]):
        assert ir.ops.rms_norm.dispatch(x, layer.weight, 1e-6).provider == operators.IR_PROVIDER
        close(layer(x), expected, "float32")
        # A weight of another dtype is vLLM's own.
        half = x.to(torch.bfloat16)
        assert ir.ops.rms_norm.dispatch(half, layer.weight, 1e-6).provider == "native"


def test_a_layer_that_vllms_configuration_switches_off_says_so():
    config = VllmConfig()
    config.compilation_config.custom_ops.append("-silu_and_mul")
    with set_current_vllm_config(config):
        x, layer = torch.randn(2, 64), activation.SiluAndMul()
    close(layer(x), activation.SiluAndMul.forward_native(x), "float32")
    (said,) = [one for one in operators.bound() if one.operator == "silu_and_mul"]
    assert said.implementation == "vllm" and "custom_ops" in said.why


def test_a_layer_that_another_plugin_replaces_is_an_error_that_names_it(monkeypatch):
    theirs = type("Theirs", (activation.SiluAndMul,), {"__module__": "acme.layers"})
    monkeypatch.setitem(op_registry_oot, "SiluAndMul", theirs)
    with pytest.raises(InvalidValue, match=r"acme\.layers replaces vLLM's SiluAndMul"):
        operators.bind(DEVICE)


def test_a_layer_before_anything_was_decided_is_an_error(monkeypatch):
    monkeypatch.setattr(process, "_here", None)
    with pytest.raises(RunFailed, match="Nothing was decided"):
        activation.SiluAndMul()
    assert operators.bound() == []


# who decides


def test_what_is_bound_names_the_line_that_decided():
    activation.SiluAndMul()
    RMSNorm(64)
    said = {one.operator: one for one in operators.bound()}
    assert set(said) == {"attention_backend", "rms_norm", "silu_and_mul"}
    assert said["silu_and_mul"].implementation == OURS
    assert said["silu_and_mul"].why == ("ascend.yaml:9" if EMULATED else "built in")


def test_what_an_implementation_computes_in_another_way_stands_beside_it_once():
    for _ in range(2):  # of two layers
        process.note("attention_backend", "in plain torch: head size 32")
    (said,) = [one for one in operators.bound() if one.operator == "attention_backend"]
    assert said.why.endswith("; in plain torch: head size 32")
    assert said.why.count("plain") == 1


def test_a_rule_of_the_environment_decides(monkeypatch):
    rules = "{order: [{operators: [rms_norm], providers: [reference]}]}"
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", rules)
    operators.bind(DEVICE)
    RMSNorm(64)
    (said,) = [one for one in operators.bound() if one.operator == "rms_norm"]
    assert (said.implementation, said.why) == ("reference", "environment JUMAR_OPERATOR_RULES:1")


@pytest.mark.parametrize(
    ("when", "holds"),
    [
        ('{device_class: "npu*"}', EMULATED),
        ("{device_class: npu-emulated}", EMULATED),
        ("{device_class: cpu}", not EMULATED),
        ('{vllm: ">=0.24"}', True),
        ('{vllm: "<0.24"}', False),
    ],
)
def test_a_rule_holds_on_the_device_and_the_vllm_that_it_names(monkeypatch, when, holds):
    order = f"{{operators: [rms_norm], providers: [reference], when: {when}}}"
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", f"{{order: [{order}]}}")
    operators.bind(DEVICE)
    (said,) = [one for one in operators.bound() if one.operator == "rms_norm"]
    assert ("JUMAR_OPERATOR_RULES" in said.why) is holds


def test_a_rule_on_everything_is_followed_for_layers_and_the_rest_is_told(monkeypatch):
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", "{order: [{providers: [reference]}]}")
    operators.bind(DEVICE)
    assert activation.SiluAndMul().implementation.__module__.endswith("reference")
    told = process.here().told
    assert len(told) == EMULATED  # a CPU's own kernels are the reference
    assert not told or "the device computes" in told[0]


@pytest.mark.parametrize(
    ("variable", "value", "nearest"),
    [
        ("JUMAR_OPERATORS_DENY", "aten::cumsun", "aten::cumsum"),
        ("JUMAR_OPERATOR_RULES", "{order: [{operators: [rms_nrm], providers: [reference]}]}",
         "rms_norm"),
        ("JUMAR_OPERATOR_RULES", "{order: [{providers: [referense]}], strict: true}", "reference"),
    ],
)  # fmt: skip
def test_a_name_that_means_nothing_is_an_error_that_names_the_nearest(
    monkeypatch, variable, value, nearest
):
    monkeypatch.setenv(variable, value)
    with pytest.raises(InvalidValue) as refused:
        operators.bind(DEVICE)
    assert nearest in str(refused.value.hint)


def test_a_rule_on_the_intermediate_representation_names_the_layer_to_speak_of(monkeypatch):
    named = '{operators: ["vllm_ir::fused_add_rms_norm"], providers: [flag_gems, reference]}'
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", f"{{order: [{named}]}}")
    with pytest.raises(InvalidValue) as refused:
        operators.bind(DEVICE)
    assert "rms_norm" in str(refused.value.hint)


def test_a_file_that_means_nothing_ends_the_process_that_starts(monkeypatch):
    operators.register()
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", "{oder: []}")
    with pytest.raises(InvalidValue.__bases__[0]) as refused:
        operators.register()
    assert "order" in str(refused.value.hint)


@ON_NPU
def test_evidence_against_an_implementation_moves_its_layer_to_the_reference():
    assert RMSNorm(64).implementation.__module__.endswith("torch_npu")
    record = found_wrong("rms_norm", "torch_npu")
    operators.bind(DEVICE)
    x, layer = torch.randn(5, 64), RMSNorm(64)
    assert layer.implementation.__module__.endswith("reference")
    close(layer(x), ir.ops.rms_norm.impls["native"].impl_fn(x, layer.weight, 1e-6), "float32")
    (said,) = [one for one in operators.bound() if one.operator == "rms_norm"]
    assert said.implementation == "reference"
    assert f"torch_npu in quarantine: wrong (evidence {record.id})" in said.why
    assert activation.SiluAndMul().implementation.__module__.endswith("torch_npu")
    (listed,) = operators.report()["quarantine"]
    assert listed["evidence"] == record.id and listed["implementation"] == "torch_npu"
    assert operators.report()["evidence"]["verdicts"] == {"wrong": 1}


@ON_CPU
def test_nothing_left_is_an_error_that_names_the_evidence():
    record = found_wrong("rms_norm", "reference")
    with pytest.raises(OperatorUnavailable, match=record.id):
        operators.bind(DEVICE)


# operators of torch


@ON_NPU
def test_an_operator_that_is_denied_is_computed_by_the_reference_and_proven_live(monkeypatch):
    assert not live(CUMSUM, device=DEVICE)  # the control
    monkeypatch.setenv("JUMAR_OPERATORS_DENY", "aten::cumsum")
    operators.bind(DEVICE)
    assert live(CUMSUM, device=DEVICE)
    (said,) = [one for one in operators.bound() if one.operator == "aten::cumsum"]
    assert said.implementation == "reference"
    assert "device denied (environment JUMAR_OPERATORS_DENY:1)" in said.why
    close(torch.ones(4).cumsum(0).cpu(), torch.ones(4, device="cpu").cumsum(0), "float32")


@ON_NPU
def test_evidence_against_a_kernel_of_the_device_overrides_it():
    record = found_wrong("aten::cumsum", "device")
    operators.bind(DEVICE)
    (said,) = [one for one in operators.bound() if one.operator == "aten::cumsum"]
    assert said.implementation == "reference" and record.id in said.why
    assert live(CUMSUM, device=DEVICE)


@ON_NPU
def test_an_override_that_loses_its_place_is_told_before_anything_is_served(monkeypatch):
    monkeypatch.setenv("JUMAR_OPERATORS_DENY", "aten::cumsum")
    operators.bind(DEVICE)
    operators.settle()
    with torch.library._scoped_library("aten", "IMPL") as library:
        library.impl("cumsum", lambda x, *args, **kwargs: x, "PrivateUse1", allow_override=True)
        with pytest.raises(RunFailed, match="aten::cumsum by reference is dead"):
            operators.settle()


@ON_CPU
def test_a_cpu_has_no_other_kernel_than_its_own():
    os.environ["JUMAR_OPERATORS_DENY"] = "aten::cumsum"
    try:
        with pytest.raises(OperatorUnavailable, match=r"aten::cumsum cannot be computed by"):
            operators.bind(DEVICE)
    finally:
        del os.environ["JUMAR_OPERATORS_DENY"]


# what is shown


class Lines(logging.Handler):
    """What was logged."""

    def __init__(self):
        super().__init__()
        self.said = []

    def emit(self, record):
        self.said.append(record.getMessage())


@pytest.fixture
def log():
    """The lines of Jumar's logger from here on."""
    lines, logger = Lines(), logging.getLogger("vllm.jumar")
    level = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(lines)
    yield lines.said
    logger.removeHandler(lines)
    logger.setLevel(level)


def test_the_log_says_once_what_is_bound_in_the_form_that_people_know_from_such_servers(log):
    for _ in range(3):
        RMSNorm(64)
        activation.SiluAndMul()
    operators.settle()
    tier = "vendor.ascend" if EMULATED else "reference.torch"
    (line,) = log
    assert f"rms_norm → {tier}, silu_and_mul → {tier}" in line
    assert ("emulated" in line) is EMULATED


def test_the_log_names_what_stands_in_quarantine_with_its_evidence(log):
    record = found_wrong("aten::mul", "flag_gems")
    operators.bind(DEVICE)
    operators.settle()
    assert log[1:] == [f"In quarantine: aten::mul by flag_gems: wrong (evidence {record.id})"]


def test_the_report_can_be_sent_by_vllm_and_counts_evidence(monkeypatch):
    rules = "{order: [{operators: [rms_norm], providers: [" + OURS + ", reference]}]}"
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", rules)
    operators.bind(DEVICE)
    RMSNorm(64)
    found_wrong("aten::mul", "flag_gems")
    said = operators.report()
    assert MsgpackDecoder().decode(MsgpackEncoder().encode(said)) == said
    assert said["pid"] == os.getpid() and said["device"] == DEVICE and said["rank"] == 0
    assert said["emulated"] is EMULATED
    assert {"rms_norm": OURS}.items() <= {
        one["operator"]: one["implementation"] for one in said["operators"]
    }.items()
    assert said["evidence"]["records"] == 1

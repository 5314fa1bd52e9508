"""Attention by torch_npu's fused kernels, on the emulated NPU: it computes what its pages say and
refuses what they refuse, which says nothing about a real one.

JUMAR_EMULATE_NPU=2 pytest tests/vllm/test_attention_ascend.py
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here")
if not os.environ.get("JUMAR_EMULATE_NPU"):
    pytest.skip("no NPU is emulated: JUMAR_EMULATE_NPU=2", allow_module_level=True)

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vllm.attending import Engine, Features, close

from jumar.contracts.errors import OperatorUnavailable
from jumar.emulator import fault, record
from jumar.vllm.attention.ascend import AscendBackend, AscendImpl

FUSED, SCATTER = "npu::npu_fused_infer_attention_score", "npu::npu_scatter_pa_kv_cache"
NPU = Features(size=64, scale=0.125, dtype=torch.float16)


def served(sequences, features=NPU, seed=0, **more):
    engine = Engine(AscendBackend, features, device="npu:0", block=128, seed=seed, **more)
    new = {engine.join(): count for _, count in sequences}
    before = {number: old for number, (old, _) in zip(new, sequences, strict=True) if old}
    if before:
        engine.step(before)
    return engine, new


def differs(engine, new, **changed):
    got, expected = engine.step(new, **changed)
    return not close(got, expected, engine.features.dtype)


@settings(max_examples=15, deadline=None)
@given(
    sequences=st.lists(st.tuples(st.integers(0, 200), st.integers(1, 30)), min_size=1, max_size=4),
    heads=st.sampled_from([(4, 2), (3, 1), (2, 2)]),
    size=st.sampled_from([64, 128]),
    dtype=st.sampled_from([torch.float16, torch.bfloat16]),
    seed=st.integers(0, 3),
)
def test_each_sequence_gets_the_formula(sequences, heads, size, dtype, seed):
    features = Features(*heads, size=size, scale=size**-0.5, dtype=dtype)
    engine, new = served(sequences, features, seed)
    with record() as called:
        got, expected = engine.step(new, padding=seed)
    assert close(got, expected, dtype)
    assert {FUSED, SCATTER} <= set(called)


def test_a_layer_costs_one_call_however_many_sequences():
    engine, new = served([(20, 1), (150, 1), (3, 9)])
    with record() as called:
        engine.step(new)
    assert list(called).count(FUSED) == 1 and "aten::index_select" not in called


def test_its_calls_have_the_recorded_schemas():
    path = "src/jumar/operators/catalogue/recorded/torch_npu-2.13.0.json"
    recorded = json.loads((Path(__file__).parents[2] / path).read_text(encoding="utf-8"))
    for name in (FUSED, SCATTER):
        schema = getattr(torch.ops.npu, name.removeprefix("npu::")).default._schema
        assert str(schema) == recorded["operators"][name]["schema"]


def test_blocks_have_128_tokens():
    assert AscendBackend.get_supported_kernel_block_sizes() == [128]
    assert AscendBackend.get_builder_cls().supports_update_block_table
    engine = Engine(AscendBackend, NPU, device="npu:0", block=16)
    with pytest.raises(RuntimeError, match="error 561002"):
        engine.step({engine.join(): 5})


@pytest.mark.parametrize(
    ("features", "why"),
    [
        (Features(size=32, dtype=torch.float16), "head size 32"),
        (Features(size=80, dtype=torch.float16), "head size 80"),
        (Features(size=64), "float32"),
        (Features(size=64, dtype=torch.float16, window=9), "a sliding window"),
        (Features(size=64, dtype=torch.float16, cap=1.5), "a soft cap of scores"),
        (Features(size=64, dtype=torch.float16, slopes=(0.5, 0.25, 0.125, 0.0625)), "ALiBi"),
        (Features(size=64, dtype=torch.float16, sinks=(0.5, 1, 0, 2)), "sinks"),
    ],
)
def test_what_the_kernel_refuses_is_computed_in_plain_torch_and_told(features, why, monkeypatch):
    said = []
    monkeypatch.setattr(
        "jumar.vllm.attention.ascend.logger.info_once",
        lambda text, *given: said.append(text % given),
        raising=False,
    )
    noted = []
    monkeypatch.setattr("jumar.vllm.attention.ascend.note", lambda *given: noted.append(given))
    engine, new = served([(40, 1), (3, 5)], features)
    with record() as called:
        got, expected = engine.step(new)
    assert close(got, expected, features.dtype) and FUSED not in called
    assert any(why in one for one in said)
    assert any(name == "attention_backend" and why in sentence for name, sentence in noted)


def test_the_kernel_refuses_those_heads_indeed(monkeypatch):
    monkeypatch.setattr("jumar.vllm.attention.ascend.unfit", lambda size, dtype: None)
    engine, _ = served([], Features(size=32, dtype=torch.float16))
    with pytest.raises(RuntimeError, match="head size 32"):
        engine.step({engine.join(): 5})


@pytest.mark.parametrize("kind", ["encoder", "encoder_only"])
@pytest.mark.parametrize("causal", [True, False])
def test_encoders_attend_within_their_step(kind, causal):
    features = Features(size=64, dtype=torch.float16, causal=causal)
    engine = Engine(AscendBackend, features, device="npu:0", block=128, layer={"attn_type": kind})
    engine.cache = torch.empty(0, device="npu:0")
    with record() as called:
        got, expected = engine.step({engine.join(): 30, engine.join(): 7})
    assert close(got, expected, features.dtype) and FUSED in called


def test_a_step_without_sequences_of_one_length_after_another():
    engine, _ = served([(0, 1)])
    for new in (130, 1, 64, 1):
        got, expected = engine.step({0: new})
        assert close(got, expected, torch.float16)


# ---- negative controls ---------------------------------------------------------------------------


def test_another_scale_is_noticed():
    engine, new = served([(20, 1), (3, 5)])
    assert differs(engine, new, impl=engine.implementation(scale=0.2))


def test_slots_off_by_one_are_noticed():
    engine, new = served([(20, 1), (3, 5)])
    assert differs(engine, new, slots=1)


def test_a_mask_that_is_missing_is_noticed():
    engine, new = served([(3, 5)])
    assert differs(engine, new, causal=False)


def test_a_mask_without_its_mode_is_refused(monkeypatch):
    engine, new = served([(3, 5)])
    monkeypatch.setattr("jumar.vllm.attention.ascend.RIGHT_DOWN", 0)
    with pytest.raises(RuntimeError, match="a mask with sparse_mode 0"):
        engine.step(new)


def test_keys_that_are_never_written_are_noticed(monkeypatch):
    monkeypatch.setattr(AscendImpl, "_put", lambda *_: None)
    engine, new = served([(20, 1)])
    assert differs(engine, new)


@pytest.mark.parametrize("kernel", [FUSED])
def test_a_wrong_kernel_is_noticed(kernel):
    engine, new = served([(20, 1), (3, 5)])
    with fault(kernel.removeprefix("npu::"), "wrong"):
        assert differs(engine, new)


# ---- layers that share a cache -------------------------------------------------------------------


class Config:
    """What `get_current_vllm_config` gives, as far as it is asked."""

    def __init__(self, layers):
        self.compilation_config = self
        self.static_forward_context = layers


def test_a_layer_does_not_share_a_cache_that_is_laid_out_otherwise(monkeypatch):
    engine, _ = served([])
    layer = torch.nn.Module()
    layer.impl = engine.impl
    monkeypatch.setattr("vllm.config.get_current_vllm_config", lambda: Config({"0": layer}))
    engine.implementation(kv_sharing_target_layer_name="0")
    with pytest.raises(OperatorUnavailable, match="shares the cache of 0"):
        engine.implementation(kv_sharing_target_layer_name="0", logits_soft_cap=2.0)

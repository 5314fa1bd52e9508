"""Paged attention in plain torch: softmax(q k^T) v of each sequence, whatever stands beside it."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vllm.attending import Engine, Features, close, dense
from torch.utils._python_dispatch import TorchDispatchMode
from vllm.v1.attention.backend import AttentionBackend, AttentionType

from jumar.contracts.errors import OperatorUnavailable
from jumar.vllm.attention.ascend import AscendBackend
from jumar.vllm.attention.batches import Batch
from jumar.vllm.attention.metadata import PagedBuilder
from jumar.vllm.attention.paged import TorchPagedBackend, TorchPagedImpl

HEADS = [(4, 2), (3, 1), (4, 4), (9, 3)]
TOGETHER = st.lists(st.tuples(st.integers(0, 70), st.integers(1, 40)), min_size=1, max_size=6)
"""Per sequence: tokens in the cache, new ones."""


def served(sequences, features, block=16, seed=0):
    """An engine whose sequences have their tokens in the cache, and what is new in the next step"""
    engine = Engine(TorchPagedBackend, features, block=block, seed=seed)
    new = {engine.join(): count for _, count in sequences}
    before = {number: old for number, (old, _) in zip(new, sequences, strict=True) if old}
    if before:
        engine.step(before)
    return engine, new


@settings(max_examples=60, deadline=None)
@given(
    sequences=TOGETHER,
    heads=st.sampled_from(HEADS),
    size=st.sampled_from([8, 16, 64]),
    block=st.sampled_from([16, 32]),
    window=st.none() | st.integers(1, 50),
    extra=st.sampled_from(["", "", "slopes", "cap", "sinks"]),
    dtype=st.sampled_from([torch.float32, torch.float32, torch.float16, torch.bfloat16]),
    seed=st.integers(0, 9),
)
def test_each_sequence_gets_the_formula(sequences, heads, size, block, window, extra, dtype, seed):
    features = Features(
        *heads,
        size=size,
        scale=size**-0.5,
        dtype=dtype,
        window=window,
        slopes=tuple(2.0 ** -(1 + i) for i in range(heads[0])) if extra == "slopes" else None,
        cap=1.5 if extra == "cap" else None,
        sinks=tuple(0.5 * i for i in range(heads[0])) if extra == "sinks" else None,
    )
    engine, new = served(sequences, features, block, seed)
    got, expected = engine.step(new, padding=seed % 3)
    assert close(got, expected, dtype)


@pytest.mark.parametrize("tile", [16, 512])
def test_chunks_of_a_prompt_and_the_tokens_after_it_are_those_of_one_sequence(tile, monkeypatch):
    monkeypatch.setattr("jumar.vllm.attention.batches.QUERY_TILE", tile)
    engine, _ = served([(0, 1)], Features())
    for new in (40, 1, 64, 17, 1, 1):
        got, expected = engine.step({0: new})
        assert close(got, expected, torch.float32)


def test_long_and_short_contexts_side_by_side():
    engine, new = served([(600, 1), (3, 1), (580, 30), (0, 2)], Features(size=8))
    got, expected = engine.step(new)
    assert close(got, expected, torch.float32)


def test_a_prefix_is_read_from_the_blocks_that_another_sequence_wrote():
    engine, _ = served([(50, 1)], Features())
    second = engine.join(engine.sequences[0], tokens=48)
    got, expected = engine.step({second: 9, 0: 1})
    assert close(got, expected, torch.float32)


def test_windows_do_not_need_the_blocks_that_were_freed():
    engine, _ = served([(70, 1)], Features(window=20))
    one = engine.sequences[0]
    one.blocks[:2] = [0, 0]  # as vLLM leaves freed blocks in the table
    got, expected = engine.step({0: 1})
    assert close(got, expected, torch.float32)


def test_a_window_holds_where_all_layers_share_one_kind_of_blocks():
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    spec = FullAttentionSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float32)
    engine = Engine(TorchPagedBackend, Features(window=7), spec=spec)
    new = {engine.join(): 30, engine.join(): 5}
    engine.step(new)
    got, expected = engine.step({0: 1, 1: 1})
    assert close(got, expected, torch.float32)


# ---- negative controls ---------------------------------------------------------------------------


def differs(engine, new, **changed):
    got, expected = engine.step(new, **changed)
    return not close(got, expected, torch.float32)


def test_another_scale_is_noticed():
    engine, new = served([(20, 1), (3, 5)], Features())
    assert differs(engine, new, impl=engine.implementation(scale=0.33))


def test_a_mask_off_by_one_is_noticed(monkeypatch):
    right = Batch._positions
    monkeypatch.setattr(Batch, "_positions", lambda self: (right(self)[0] - 1, right(self)[1]))
    engine, new = served([(20, 3), (3, 5)], Features())
    assert differs(engine, new)


def test_slots_off_by_one_are_noticed():
    engine, new = served([(20, 1), (3, 5)], Features())
    assert differs(engine, new, slots=1)


def test_a_mask_that_is_missing_is_noticed():
    engine, new = served([(20, 3), (3, 5)], Features())
    assert differs(engine, new, causal=False)


@pytest.mark.parametrize("window", [6, 8])
def test_a_window_off_by_one_is_noticed(window):
    engine, new = served([(20, 1), (3, 5)], Features(window=7))
    engine.builder.window = window
    assert differs(engine, new, impl=engine.implementation(sliding_window=window))


def test_what_another_sequence_left_in_a_block_is_noticed_where_it_is_not_taken_out(monkeypatch):
    monkeypatch.setattr(PagedBuilder, "_begun", lambda self, slots: None)
    engine, new = served([(20, 1), (25, 1)], Features())
    assert differs(engine, new)


# ---- the cache -----------------------------------------------------------------------------------


def test_a_step_writes_its_keys_and_values_and_zeros_behind_them_in_the_last_block():
    engine, _ = served([], Features())
    engine.step({engine.join(): 20, engine.join(): 3}, padding=2)
    expected = torch.full_like(engine.cache, float("nan"))
    for one in engine.sequences:
        expected[one.blocks[-1]] = 0
        for at in range(len(one.keys)):
            block, offset = one.blocks[at // 16], at % 16
            expected[block, :, offset] = torch.cat((one.keys[at], one.values[at]), -1)
    torch.testing.assert_close(engine.cache, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("broken", ["nobody writes", "the flag is wrong"])
def test_keys_that_are_never_written_are_noticed(broken, monkeypatch):
    if broken == "nobody writes":
        monkeypatch.setattr(TorchPagedImpl, "_write", lambda *_: None)
        engine, new = served([(20, 1)], Features())
        assert differs(engine, new)
    else:
        monkeypatch.setattr(TorchPagedBackend, "forward_includes_kv_cache_update", False)
        with pytest.raises(AttributeError, match="do_kv_cache_update"):
            served([(20, 1)], Features())


def test_a_layer_that_shares_anothers_cache_reads_it_and_writes_nothing():
    engine, new = served([(20, 1), (3, 5)], Features())
    engine.step(new)
    before = engine.cache.clone()
    sharing = engine.implementation(kv_sharing_target_layer_name="0")
    stepped = [(engine.sequences[number], count) for number, count in new.items()]
    query, other = engine.normal(6, 4, 16), engine.normal(6, 2, 16)
    got = engine.through(engine.common(stepped), query, other, other, impl=sharing)
    parts = query.split(list(new.values()))
    expected = [
        dense(engine.features, part, one.keys, one.values)
        for part, (one, _) in zip(parts, stepped, strict=True)
    ]
    assert close(got, torch.cat(expected), torch.float32)
    torch.testing.assert_close(engine.cache, before, rtol=0, atol=0, equal_nan=True)


def test_another_groups_blocks_in_the_same_metadata():
    engine, new = served([(20, 1), (3, 1)], Features())
    engine.step(new)
    stepped = [(one, 1) for one in engine.sequences]
    common = engine.common(stepped)
    query, key, value = engine.normal(2, 4, 16), engine.normal(2, 2, 16), engine.normal(2, 2, 16)
    expected = engine.through(common, query, key, value)
    moved = torch.randperm(79, generator=engine.draw) + 1
    place = torch.cat((torch.zeros(1).long(), moved))
    elsewhere = torch.full_like(engine.cache, float("nan"))
    elsewhere[place] = engine.cache
    table = place[common.block_table_tensor.long()].int()
    slots = place[common.slot_mapping // 16] * 16 + common.slot_mapping % 16
    metadata = engine.builder.update_block_table(engine.builder.build(0, common), table, slots)
    output = torch.empty_like(query)
    engine.impl.forward(None, query, key, value, elsewhere, metadata, output)
    torch.testing.assert_close(output, expected, rtol=0, atol=0)


def test_a_profile_run_has_no_metadata_and_computes_nothing():
    engine, _ = served([], Features())
    output = torch.full((3, 4, 16), float("nan"))
    query = engine.normal(3, 4, 16)
    engine.impl.forward(None, query, query, query, engine.cache, None, output)
    assert torch.equal(output, torch.zeros(3, 4, 16))


# ---- without a cache -----------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(
    counts=st.lists(st.integers(1, 60), min_size=1, max_size=5),
    window=st.none() | st.integers(1, 30),
    causal=st.booleans(),
    kind=st.sampled_from(["encoder", "encoder_only"]),
)
def test_encoders_attend_within_their_step(counts, window, causal, kind):
    features = Features(window=window, causal=causal)
    engine = Engine(TorchPagedBackend, features, layer={"attn_type": kind})
    engine.cache = torch.empty(0)
    got, expected = engine.step({engine.join(): count for count in counts})
    assert close(got, expected, torch.float32)


def test_an_encoder_reads_a_text_longer_than_a_tile():
    features = Features(heads=1, kv_heads=1, size=8, causal=False)
    engine = Engine(TorchPagedBackend, features, layer={"attn_type": "encoder_only"})
    got, expected = engine.step({engine.join(): 530, engine.join(): 4})
    assert close(got, expected, torch.float32)


def test_vllms_cross_attention_stands_on_it():
    from vllm.model_executor.layers.attention.cross_attention import (
        create_cross_attention_backend,
    )
    from vllm.v1.kv_cache_interface import CrossAttentionSpec

    features = Features(causal=False)
    backend = create_cross_attention_backend(TorchPagedBackend)
    spec = CrossAttentionSpec(block_size=16, num_kv_heads=2, head_size=16, dtype=torch.float32)
    engine = Engine(backend, features, spec=spec, layer={"attn_type": "encoder_decoder"})
    for _ in range(2):
        engine.join()
    encoded = {0: 21, 1: 7}
    keys, values = engine.normal(28, 2, 16), engine.normal(28, 2, 16)
    for number, (begin, end) in enumerate(((0, 21), (21, 28))):
        one = engine.sequences[number]
        one.keys, one.values = keys[begin:end], values[begin:end]
        one.blocks = [engine.free.pop() for _ in range(-(-encoded[number] // 16))]

    def decode(counts, computed, key, value):
        common = engine.common([(one, n) for one, n in zip(engine.sequences, counts, strict=True)])
        lengths = torch.tensor([21, 7], dtype=torch.int32)
        decoded = torch.tensor([n + computed for n in counts], dtype=torch.int32)
        common = common.replace(
            seq_lens=decoded,
            encoder_seq_lens=lengths,
            encoder_seq_lens_cpu=lengths.numpy(),
            seq_lens_cpu_upper_bound=decoded,
        )
        query = engine.normal(sum(counts), 4, 16)
        metadata = engine.builder.build(0, common)
        output, layer = torch.empty_like(query), torch.nn.Module()
        layer.kv_sharing_target_layer_name = None
        engine.impl.forward(layer, query, key, value, engine.cache, metadata, output)
        parts = zip(query.split(counts), engine.sequences, strict=True)
        expected = [dense(features, part, one.keys, one.values) for part, one in parts]
        return close(output, torch.cat(expected), torch.float32)

    assert decode([3, 2], 0, keys, values)
    assert decode([1, 1], 3, None, None)


# ---- what a step costs ---------------------------------------------------------------------------


class Calls(TorchDispatchMode):
    """Counts what reaches torch's dispatcher, but views."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if not function.is_view:
            self.names.append(function.overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def calls_of_a_layer(sequences):
    """Of the second layer of a step: the first one may prepare things."""
    engine, new = served(sequences, Features())
    engine.step(new)
    stepped = [(engine.sequences[number], count) for number, count in new.items()]
    metadata = engine.builder.build(0, engine.common(stepped))
    tokens = sum(new.values())
    query, key = engine.normal(tokens, 4, 16), engine.normal(tokens, 2, 16)
    arguments = (None, query, key, key.clone(), engine.cache, metadata, torch.empty_like(query))
    engine.impl.forward(*arguments)
    with Calls() as called:
        engine.impl.forward(*arguments)
    return called.names


def test_one_caller_costs_a_layer_five_calls():
    assert calls_of_a_layer([(40, 1)]) == [
        "cat",
        "index_copy_",
        "index_select",
        "_scaled_dot_product_flash_attention_for_cpu",
        "copy_",
    ]


def test_many_callers_cost_a_layer_no_more_calls_than_two():
    assert len(calls_of_a_layer([(40 + i % 3, 1) for i in range(16)])) == len(
        calls_of_a_layer([(40, 1), (41, 1)])
    )


# ---- what vLLM asks, and what is refused ---------------------------------------------------------


BACKENDS = (TorchPagedBackend, AscendBackend)


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_has_the_name_of_its_slot(backend):
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    assert AttentionBackendEnum[backend.get_name()] is AttentionBackendEnum.CUSTOM


@pytest.mark.parametrize("backend", BACKENDS)
def test_all_that_vllm_asks_of_a_backend_has_an_answer(backend):
    """A backend that lacked `get_required_kv_cache_layout` once ended an engine at its start."""
    for name in dir(AttentionBackend):
        asked = getattr(backend, name)
        if callable(asked) and not name.startswith("_") and not wanted(asked):
            if name == "get_kv_cache_stride_order":  # vLLM takes the order of the shape then
                continue
            asked()
    assert backend.get_required_kv_cache_layout() == "HND"
    assert backend.get_kv_cache_shape(3, 128, 2, 64) == (3, 2, 128, 128)
    assert all(backend.supports_attn_type(kind) for kind in AttentionType)
    preferred = backend.get_preferred_block_size(16)
    assert preferred == (128 if backend is AscendBackend else 16)


def wanted(asked):
    """The arguments that have to be given."""
    parameters = inspect.signature(asked).parameters.values()
    return [one.name for one in parameters if one.default is one.empty]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_with_plain_attention_is_valid_for_it(backend):
    given = dict.fromkeys(
        ("use_mla", "has_sink", "use_sparse", "use_mm_prefix", "use_per_head_quant_scales"), False
    )
    reasons = backend.validate_configuration(
        head_size=64,
        dtype=torch.float32,
        kv_cache_dtype="auto",
        block_size=128,
        device_capability=None,
        attn_type="decoder",
        **given,
    )
    assert reasons == []
    given["use_mla"] = True
    assert backend.validate_configuration(
        head_size=64,
        dtype=torch.float32,
        kv_cache_dtype="fp8",
        block_size=100,
        device_capability=None,
        attn_type="decoder",
        **given,
    ) == ["kv_cache_dtype not supported", "block_size not supported", "MLA not supported"]


@pytest.mark.parametrize("dtype", ["fp8", "fp8_e4m3", "nvfp4"])
def test_a_quantised_cache_is_refused_by_name(dtype):
    with pytest.raises(OperatorUnavailable, match=f"a KV cache in {dtype}"):
        TorchPagedImpl(4, 16, 1.0, kv_cache_dtype=dtype)


def test_an_image_that_is_seen_both_ways_in_a_causal_text_is_refused():
    engine, new = served([(0, 4)], Features())
    engine.step(new)
    common = engine.common([(engine.sequences[0], 1)]).replace(mm_req_doc_ranges={0: [(0, 2)]})
    with pytest.raises(OperatorUnavailable, match="causal for a part of the tokens"):
        engine.builder.build(0, common)


def test_a_quantised_output_is_refused():
    engine, new = served([(0, 4)], Features())
    query, key = engine.normal(1, 4, 16), engine.normal(1, 2, 16)
    engine.step(new)
    metadata = engine.builder.build(0, engine.common([(engine.sequences[0], 1)]))
    with pytest.raises(OperatorUnavailable, match="a quantised output"):
        engine.impl.forward(
            None, query, key, key, engine.cache, metadata, query, output_scale=torch.ones(1)
        )

"""Attention of vision encoders: each image within itself, whatever stands beside it."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vllm.attending import Features, close, dense

NPU = getattr(torch, "npu", None) is not None and torch.npu.is_available()


def made(name, monkeypatch, features):
    """The layer, without a configuration of vLLM around it."""
    from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention

    from jumar.vllm.attention import vision

    def start(self, num_heads, head_size, scale=None, num_kv_heads=None, prefix=""):
        torch.nn.Module.__init__(self)
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads or num_heads
        self.head_size, self.scale, self.dtype = head_size, scale, features.dtype

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MMEncoderAttention, "__init__", start)
        f = features
        return getattr(vision, name)(f.heads, f.size, f.scale, f.kv_heads)


def compared(layer, features, lengths, device="cpu", flat=False):
    """Whether the layer's output is the formula's for images of these lengths."""
    f = features
    query, key, value = (
        torch.randn(1, sum(lengths), heads, f.size).to(f.dtype)
        for heads in (f.heads, f.kv_heads, f.kv_heads)
    )
    asked = [one.flatten(2) if flat else one for one in (query, key, value)]
    starts = torch.tensor([0, *lengths]).cumsum(0).int()
    got = layer.forward_oot(*(one.to(device) for one in asked), starts.to(device))
    assert got.shape == asked[0].shape and got.dtype == f.dtype
    parts = zip(*(one[0].split(lengths) for one in (query, key, value)), strict=True)
    expected = torch.cat([dense(f, *one) for one in parts])
    return close(got.view(-1, f.heads, f.size), expected, f.dtype)


@settings(max_examples=25, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 60), min_size=1, max_size=8),
    heads=st.sampled_from([(2, 2), (4, 2)]),
    flat=st.booleans(),
)
def test_each_image_gets_the_formula(lengths, heads, flat):
    features = Features(*heads, size=20, causal=False)
    layer = made("TorchVisionAttention", None, features)
    assert compared(layer, features, lengths, flat=flat)


def test_images_that_look_at_each_other_are_noticed(monkeypatch):
    features = Features(2, 2, causal=False)
    layer = made("TorchVisionAttention", monkeypatch, features)
    whole = layer.attend
    monkeypatch.setattr(layer, "attend", lambda q, k, v, starts: whole(q, k, v, (0, starts[-1])))
    assert not compared(layer, features, [9, 5])


def test_rows_without_lengths_are_images(monkeypatch):
    features = Features(2, 2, causal=False)
    layer = made("TorchVisionAttention", monkeypatch, features)
    query, key, value = (torch.randn(3, 7, 2, 16) for _ in range(3))
    got = layer.forward_oot(query, key, value)
    for row in range(3):
        expected = dense(features, query[row], key[row], value[row])
        assert close(got[row], expected, torch.float32)


@pytest.mark.skipif(not NPU, reason="no NPU is emulated: JUMAR_EMULATE_NPU=2")
@pytest.mark.parametrize(
    ("size", "dtype", "called", "told"),
    [
        (64, torch.float16, True, ""),
        (80, torch.bfloat16, True, "heads of 80 are padded to 128"),
        (20, torch.float16, True, "heads of 20 are padded to 64"),
        (256, torch.float16, False, "head size 256"),
        (64, torch.float32, False, "float32"),
    ],
)
def test_heads_that_the_fused_kernel_refuses_go_another_way_and_it_is_told(
    size, dtype, called, told, monkeypatch
):
    from jumar.emulator import record

    said = []
    monkeypatch.setattr(
        "jumar.vllm.attention.vision.logger.info_once",
        lambda text, *given: said.append(text % given),
        raising=False,
    )
    features = Features(2, 2, size=size, scale=size**-0.5, dtype=dtype, causal=False)
    layer = made("AscendVisionAttention", monkeypatch, features)
    with record() as seen:
        assert compared(layer, features, [9, 30, 4], device="npu:0")
    assert ("npu::npu_fused_infer_attention_score" in seen) is called
    assert told in " ".join(said) and bool(said) is bool(told)

"""Layer operators: the formulas are the field's, and the reference computes them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.operators.agreeing import agree

from jumar.contracts.errors import InvalidValue, OperatorUnavailable
from jumar.operators.layers import Case, Draw, layer_operator, layer_operators
from jumar.operators.providers.reference import Reference

DTYPES = ("float32", "float16", "bfloat16")
COMPUTED = sorted(set(layer_operators()) - {"attention_backend"})


def golden(name):
    return layer_operator(name).golden


def reference(name):
    return Reference().layers()[name].make()


# ---- the formulas, held against other people's code ----------------------------------------------


def test_gated_activations_are_torch_s():
    x = torch.randn(5, 14, dtype=torch.float64)
    a, b = x.chunk(2, -1)
    torch.testing.assert_close(golden("silu_and_mul")(x), F.silu(a) * b)
    for kind in ("none", "tanh"):
        expected = F.gelu(a, approximate=kind) * b
        torch.testing.assert_close(golden("gelu_and_mul")(x, kind), expected)


def test_rms_norm_is_llama_s():
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    x, residual = torch.randn(2, 3, 32).double(), torch.randn(2, 3, 32).double()
    norm = LlamaRMSNorm(32, eps=1e-5)
    weight = norm.weight.data.normal_().double()
    close = {"rtol": 1e-6, "atol": 1e-6}  # Llama's computes in float32
    torch.testing.assert_close(golden("rms_norm")(x, weight, 1e-5), norm(x).double(), **close)
    normalised, total = golden("rms_norm")(x, weight, 1e-5, residual)
    torch.testing.assert_close(normalised, norm(x + residual).double(), **close)
    assert torch.equal(total, x + residual)


def test_rotary_embedding_is_llama_s_and_interleaved_it_is_cohere_s():
    from transformers.models.cohere.modeling_cohere import apply_rotary_pos_emb as cohere
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as llama

    query, key = torch.randn(7, 4, 16).double(), torch.randn(7, 2, 16).double()
    angles = torch.randn(7, 8).double()
    cos, sin = angles.cos(), angles.sin()
    for interleaved, theirs in ((False, llama), (True, cohere)):
        full = [
            one.repeat_interleave(2, -1) if interleaved else torch.cat((one, one), -1)
            for one in (cos, sin)
        ]
        heads_first = [one.transpose(0, 1)[None] for one in (query, key)]
        expected = [
            one[0].transpose(0, 1) for one in theirs(*heads_first, *(f[None] for f in full))
        ]
        got = golden("rotary_embedding")(query, key, cos, sin, interleaved)
        for one, other in zip(got, expected, strict=True):
            torch.testing.assert_close(one, other.double(), rtol=1e-6, atol=1e-6)


def test_routing_is_softmax_then_topk():
    weights, experts = golden("topk_softmax")(torch.tensor([[0.0, 2.0, 1.0]]), 2)
    assert experts.tolist() == [[1, 2]]
    torch.testing.assert_close(weights, torch.tensor([[0.66524096, 0.24472847]]).double())
    weights, _ = golden("topk_softmax")(torch.tensor([[0.0, 2.0, 1.0]]), 2, True)
    torch.testing.assert_close(weights, torch.tensor([[0.73105858, 0.26894142]]).double())


def test_blocks_are_aligned_as_in_vllm_s_example():
    ids = torch.tensor([[2, 3, 4], [1, 2, 4], [1, 3, 4], [1, 2, 3]], dtype=torch.int32)
    places, experts, count = golden("moe_align_block_size")(ids, 4, 5)
    assert places.tolist() == [3, 6, 9, 12, 0, 4, 10, 12, 1, 7, 11, 12, 2, 5, 8, 12]
    assert experts.tolist() == [1, 2, 3, 4]
    assert count.tolist() == [16]


def test_a_mixture_of_experts_is_mixtral_s():
    from transformers import MixtralConfig
    from transformers.models.mixtral.modeling_mixtral import MixtralExperts

    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_local_experts": 4}
    experts = MixtralExperts(MixtralConfig(**sizes)).double()
    for one in experts.parameters():
        torch.nn.init.normal_(one, std=0.3)
    x, weights = torch.randn(5, 8).double(), torch.rand(5, 2).double()
    ids = torch.tensor([[0, 3], [1, 2], [3, 0], [2, 1], [0, 1]])
    with torch.no_grad():
        expected = experts(x, ids, weights)
        got = golden("fused_moe")(x, experts.gate_up_proj, experts.down_proj, weights, ids)
    torch.testing.assert_close(got, expected)


# ---- the reference, held against the formulas ----------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPUTED)
def test_the_reference_computes_the_formula(name, dtype):
    layer = layer_operator(name)
    cases = list(layer.cases(Draw(dtype)))
    assert len(cases) >= 4
    for case in cases:
        agree(layer, reference(name), case, dtype)


@pytest.mark.parametrize("name", COMPUTED)
def test_the_tolerances_notice_one_percent(name):
    layer = layer_operator(name)

    def off(*args, **kwargs):
        result = reference(name)(*args, **kwargs)
        first, *rest = result if isinstance(result, tuple) else [result]
        wrong = first * 1.01 if first.dtype.is_floating_point else first + 1
        return (wrong, *rest) if isinstance(result, tuple) else wrong

    case = next(layer.cases(Draw("float32")))
    with pytest.raises(AssertionError):
        agree(layer, off, case, "float32")


sizes = st.integers(0, 9)


@given(rows=sizes, width=st.integers(1, 70), seed=st.integers(0, 99), half=st.booleans())
@settings(max_examples=40, deadline=None)
def test_activations_and_norms_of_any_shape(rows, width, seed, half):
    dtype = "float16" if half else "float32"
    draw = Draw(dtype, seed)
    wide = Case("drawn", (draw.normal(rows, 2 * width),))
    for name in ("silu_and_mul", "gelu_and_mul"):
        agree(layer_operator(name), reference(name), wide, dtype)
    x, weight, residual = draw.normal(rows, width), draw.normal(width), draw.normal(rows, width)
    for case in (Case("plain", (x, weight)), Case("added", (x, weight, 1e-6, residual))):
        agree(layer_operator("rms_norm"), reference("rms_norm"), case, dtype)


@given(
    tokens=sizes,
    experts=st.integers(1, 12),
    topk=st.integers(1, 12),
    block=st.integers(1, 17),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_routing_of_any_shape(tokens, experts, topk, block, seed):
    topk, draw = min(topk, experts), Draw("float32", seed)
    ids = draw.distinct(tokens, experts, topk)
    align = layer_operator("moe_align_block_size")
    agree(align, reference(align.name), Case("drawn", (ids, block, experts)), "float32")
    logits = draw.distinct(tokens, experts).float() / 4
    route = layer_operator("topk_softmax")
    agree(route, reference(route.name), Case("drawn", (logits, topk, True)), "float32")


@given(
    tokens=sizes,
    heads=st.integers(1, 4),
    pairs=st.integers(1, 20),
    rest=st.integers(0, 5),
    interleaved=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_rotations_of_any_shape(tokens, heads, pairs, rest, interleaved):
    draw, layer = Draw("float32"), layer_operator("rotary_embedding")
    angles = draw.normal(tokens, pairs)
    query, key = (draw.normal(tokens, one, 2 * pairs + rest) for one in (heads, 1))
    case = Case("drawn", (query, key, angles.cos(), angles.sin(), interleaved))
    agree(layer, reference(layer.name), case, "float32")


@pytest.mark.parametrize("name", COMPUTED)
def test_a_graph_of_the_reference_has_no_break(name):
    case = next(layer_operator(name).cases(Draw("float32")))
    compiled = torch.compile(reference(name), fullgraph=True, backend="eager", dynamic=False)
    plain = reference(name)(*case.args, **case.kwargs)
    torch.testing.assert_close(compiled(*case.args, **case.kwargs), plain, rtol=0, atol=0)


def test_an_expert_that_overflows_on_tokens_of_others_spoils_nothing():
    w1, w2 = torch.zeros(2, 2, 1), torch.ones(2, 1, 1)
    w1[0], w1[1] = 1.0, 3e38
    x, ids = torch.tensor([[2.0]]), torch.tensor([[0]])
    got = reference("fused_moe")(x, w1, w2, torch.ones(1, 1), ids)
    torch.testing.assert_close(got, F.silu(x) * x)


def test_attention_is_a_choice_of_a_class():
    choose = reference("attention_backend")
    assert choose() == "jumar.vllm.attention.paged.TorchPagedBackend"
    with pytest.raises(OperatorUnavailable, match="no latent attention"):
        choose(use_mla=True)


def test_a_name_that_is_none_gets_the_nearest():
    with pytest.raises(InvalidValue, match="rmsnorm") as raised:
        layer_operator("rmsnorm")
    assert "'rms_norm'" in raised.value.hint


def test_every_layer_operator_says_what_it_computes():
    for layer in layer_operators().values():
        assert layer.golden.__doc__ and "(" in str(layer.signature)

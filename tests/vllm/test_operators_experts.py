"""Experts and their routing on a platform that vLLM leaves without any."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("vllm")

import torch
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state as ranks
from vllm.forward_context import set_forward_context
from vllm.model_executor.layers import fused_moe
from vllm.model_executor.layers.fused_moe.moe_align_block_size import moe_align_block_size

from jumar.contracts.errors import OperatorUnavailable
from jumar.operators.layers import Case, layer_operators
from jumar.vllm import operators
from jumar.vllm.operators import aten, experts, process
from vllm import _custom_ops as compiled

DEVICE = "npu:0" if os.environ.get("JUMAR_EMULATE_NPU") else "cpu"
EXPERTS, TOPK, WIDE, NARROW = 8, 2, 32, 48


@pytest.fixture(scope="module", autouse=True)
def engine(tmp_path_factory):
    """One rank that has set its device, as a worker does."""
    torch.manual_seed(0)
    config = VllmConfig()
    config.compilation_config.fast_moe_cold_start = False  # layers are found by their names
    with pytest.MonkeyPatch.context() as patch, set_current_vllm_config(config):
        patch.setenv("JUMAR_EVIDENCE", str(tmp_path_factory.mktemp("evidence")))
        meeting = f"file://{tmp_path_factory.mktemp('ranks') / 'meeting'}"
        ranks.init_distributed_environment(1, 0, meeting, 0, "gloo")
        ranks.ensure_model_parallel_initialized(1, 1)
        operators.bind(DEVICE)
        experts.fill(process.here())
        with torch.device(DEVICE), set_forward_context(None, config, num_tokens=5):
            yield config
    aten.end()
    ranks.destroy_model_parallel()
    ranks.destroy_distributed_environment()


def layer(config, **settings):
    """Experts with drawn weights, as a model builds them."""
    config.compilation_config.static_forward_context.clear()
    config.compilation_config.static_all_moe_layers.clear()
    build = getattr(fused_moe, "FusedMoE", None) or fused_moe.FusedMoEFactory  # after 0.24
    made = build(
        EXPERTS, TOPK, WIDE, NARROW, params_dtype=torch.float32, prefix="layer", **settings
    )
    weights = made.routed_experts
    for one in (weights.w13_weight, weights.w2_weight):
        torch.nn.init.normal_(one, std=0.3)
    weights.quant_method.process_weights_after_loading(weights)
    return made


def token_by_token(made, x, weights, ids):
    """The experts one after the other, in float64 on the CPU."""
    w13, w2 = (one.detach().cpu().double() for one in
               (made.routed_experts.w13_weight, made.routed_experts.w2_weight))  # fmt: skip
    x, out = x.cpu().double(), torch.zeros(x.shape, dtype=torch.float64, device="cpu")
    for token in range(len(x)):
        for weight, expert in zip(weights[token], ids[token], strict=True):
            gate, up = (w13[expert] @ x[token]).split(NARROW)
            out[token] += weight * (w2[expert] @ (gate * torch.sigmoid(gate) * up))
    return out


def routed(logits, renormalize=True):
    """The best experts of each token by softmax, in float64 on the CPU."""
    weights, ids = logits.cpu().double().softmax(-1).topk(TOPK)
    return weights / weights.sum(-1, keepdim=True) if renormalize else weights, ids


def close(found, expected):
    torch.testing.assert_close(found.cpu().double(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("renormalize", [True, False])
def test_experts_compute_what_a_loop_over_tokens_does(engine, renormalize):
    made, x, logits = (
        layer(engine, renormalize=renormalize),
        torch.randn(5, WIDE),
        torch.randn(5, 8),
    )
    close(made(x.clone(), logits), token_by_token(made, x, *routed(logits, renormalize)))


def test_they_still_do_after_vllm_prepared_its_ranks_for_them(engine):
    """Which 0.24 does where there is more than one."""
    made, x, logits = layer(engine), torch.randn(5, WIDE), torch.randn(5, 8)
    if not hasattr(made, "maybe_init_modular_kernel"):
        pytest.skip("this vLLM does not prepare them")
    made.maybe_init_modular_kernel()
    close(made(x.clone(), logits), token_by_token(made, x, *routed(logits)))


def test_ranks_that_would_have_to_exchange_tokens_are_refused(engine, monkeypatch):
    made = layer(engine)
    ranks_of = type(made.moe_config.moe_parallel_config)
    monkeypatch.setattr(ranks_of, "use_all2all_kernels", property(lambda _: True))
    with pytest.raises(OperatorUnavailable, match="does not exchange tokens"):
        made.routed_experts.quant_method.maybe_make_prepare_finalize()


def test_a_wrong_expert_is_seen_by_this_comparison(engine):
    made, x, logits = layer(engine), torch.randn(5, WIDE), torch.randn(5, 8)
    weights, ids = routed(logits)
    with pytest.raises(AssertionError, match="not close"):
        close(made(x.clone(), logits), token_by_token(made, x, weights, (ids + 1) % EXPERTS))


GROUPS = {"use_grouped_topk": True, "num_expert_group": 4, "topk_group": 2}


def grouped(logits, scoring="softmax"):
    """DeepSeek's routing: the best two of four groups, by their best expert; then the best two."""
    scores = logits.cpu().double()
    scores = scores.softmax(-1) if scoring == "softmax" else scores.sigmoid()
    groups = scores.view(-1, 4, 2)
    best = groups.amax(-1).topk(2).indices
    kept = torch.zeros(len(scores), 4, dtype=torch.bool, device="cpu").scatter(1, best, True)
    weights, ids = groups.masked_fill(~kept.unsqueeze(-1), 0).flatten(1).topk(TOPK)
    return weights / weights.sum(-1, keepdim=True), ids


@pytest.mark.parametrize("scoring", ["softmax", "sigmoid"])
@pytest.mark.parametrize("at_the_end", [False, True])
def test_grouped_experts_keep_the_factor_of_what_was_routed(engine, scoring, at_the_end):
    made = layer(
        engine, **GROUPS, scoring_func=scoring, routed_scaling_factor=2.5,
        apply_routed_scale_to_output=at_the_end,
    )  # fmt: skip
    x, logits = torch.randn(5, WIDE), torch.randn(5, 8)
    expected = token_by_token(made, x, *grouped(logits, scoring))
    found = made(x.clone(), logits)
    close(found, 2.5 * expected)
    with pytest.raises(AssertionError, match="not close"):
        close(found, expected)  # what a lost factor would give


def test_the_method_is_not_monolithic_whatever_vllm_has_no_class_for(engine):
    method = layer(engine).routed_experts.quant_method
    assert method.is_monolithic is False and method.experts_cls is None
    assert method.implementation is process.here().hold("fused_moe", "float32")


def test_shared_experts_are_added_once(engine):
    shared = torch.nn.Linear(WIDE, WIDE, bias=False)
    made, x, logits = layer(engine, shared_experts=shared), torch.randn(5, WIDE), torch.randn(5, 8)
    expected = token_by_token(made, x, *routed(logits)) + shared(x).detach().cpu().double()
    close(made(x.clone(), logits), expected)


def test_experts_of_another_rank_count_there(engine):
    made, x, logits = layer(engine), torch.randn(5, WIDE), torch.randn(5, 8)
    of = made.routed_experts
    here = torch.tensor([-1, -1, -1, -1, 0, 1, 2, 3], dtype=torch.int32)  # global -> local
    weights, ids = routed(logits)
    of.register_buffer("_expert_map", here)
    for one in (of.w13_weight, of.w2_weight):
        one.data = one.data[4:].contiguous()
    whole = torch.where(ids >= 4, weights, 0)
    expected = token_by_token(made, x, whole, (ids - 4).clamp(min=0))
    close(made(x.clone(), logits), expected)


def test_weights_on_the_input_go_through_the_activation(engine):
    settings = {"apply_router_weight_on_input": True, "renormalize": False}
    made = layer(engine, **settings)
    x, logits = torch.randn(5, WIDE), torch.randn(5, 8)
    weights, ids = (one[:, :1] for one in routed(logits, False))
    of = made.routed_experts
    found = of.quant_method.apply(
        of, x, weights.to(x), ids.to(x.device), shared_experts=None, shared_experts_input=None
    )
    once = torch.ones(5, 1, device="cpu")
    close(found, token_by_token(made, x.cpu() * weights.float(), once, ids))


@pytest.mark.parametrize(
    ("settings", "what"),
    [({"activation": "gelu"}, "activation gelu"), ({"has_bias": True}, "bias")],
)
def test_experts_that_the_operator_does_not_compute_are_refused_when_the_model_is_built(
    engine, settings, what
):
    with pytest.raises(OperatorUnavailable, match=what):
        layer(engine, **settings)


def test_what_vllms_python_calls_of_its_compiled_library_is_there(engine):
    logits = torch.randn(5, 8)
    weights, ids, places = (
        torch.empty(5, TOPK, dtype=dtype) for dtype in (torch.float32, torch.int32, torch.int32)
    )
    compiled.topk_softmax(weights, ids, places, logits, True)
    expected, expected_ids = routed(logits)
    close(weights, expected)
    assert ids.tolist() == expected_ids.tolist()
    assert places.tolist() == [[0, 5], [1, 6], [2, 7], [3, 8], [4, 9]]  # choice * tokens + token
    total = torch.empty(5, WIDE)
    parts = torch.randn(5, TOPK, WIDE)
    compiled.moe_sum(parts, total)
    close(total, parts.cpu().double().sum(1))


@pytest.mark.parametrize("tokens", [1, 40])
def test_pairs_are_sorted_by_expert_as_vllms_python_expects(engine, tokens):
    ids = torch.stack([torch.randperm(8)[:TOPK] for _ in range(tokens)]).int()
    found = moe_align_block_size(ids, 4, EXPERTS)
    operator = layer_operators()["moe_align_block_size"]
    case = Case("", (ids, 4, EXPERTS))
    expected = operator.comparable(operator.golden(ids.cpu(), 4, EXPERTS), case)
    for one, other in zip(operator.comparable(found, case), expected, strict=True):
        assert one.tolist() == other.tolist()


def test_a_router_that_corrects_scores_by_a_bias_is_told_that_it_cannot(engine):
    weights = torch.empty(1, TOPK)
    with pytest.raises(OperatorUnavailable, match="bias"):
        compiled.topk_softmax(weights, weights.int(), weights.int(), torch.randn(1, 8), True,
                              torch.ones(8))  # fmt: skip


def test_parts_of_experts_elsewhere_are_not_summed_as_if_they_were_here(engine):
    parts, total = torch.randn(5, TOPK, WIDE), torch.empty(5, WIDE)
    ids = torch.zeros(5, TOPK, dtype=torch.int32)
    with pytest.raises(OperatorUnavailable, match="expert_map"):
        torch.ops._moe_C.moe_sum(parts, total, ids, torch.zeros(8, dtype=torch.int32))


def test_everything_of_a_mixture_is_shown(engine):
    layer(engine)
    bound = {one.operator: one.implementation for one in operators.bound()}
    on_npu = DEVICE != "cpu"
    assert (
        bound.items()
        >= {
            "fused_moe": "reference",
            "moe_align_block_size": "reference",
            "moe_sum": "reference",
            "topk_softmax": "torch_npu" if on_npu else "reference",
        }.items()
    )

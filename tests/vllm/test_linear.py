"""On the CPU oneDNN multiplies in linear layers and heads, and the engine says so."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("vllm")

import torch
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    UnquantizedEmbeddingMethod,
    VocabParallelEmbedding,
)

from jumar.devices import prepacking
from jumar.vllm.operators import linear

pytestmark = pytest.mark.skipif(not prepacking.available(), reason="no oneDNN here")


def layer(kind: type, method: Any, weight: torch.Tensor) -> torch.nn.Module:
    made = kind.__new__(kind)
    torch.nn.Module.__init__(made)
    made.weight = torch.nn.Parameter(weight, requires_grad=False)
    made.quant_method = method
    return made


class Model(torch.nn.Module):
    """One layer, embeddings, and a head that shares their weight."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up = layer(LinearBase, UnquantizedLinearMethod(), torch.randn(512, 256))
        self.halved = layer(LinearBase, UnquantizedLinearMethod(), torch.randn(512, 256).half())
        self.small = layer(LinearBase, UnquantizedLinearMethod(), torch.randn(8, 4))
        words = torch.randn(600, 256)
        self.words = layer(VocabParallelEmbedding, UnquantizedEmbeddingMethod(), words)
        self.lm_head = layer(ParallelLMHead, UnquantizedEmbeddingMethod(), words)


def process(**more: Any) -> Any:
    return SimpleNamespace(
        **{"overrides": [], "products_are_tied": False, "products": None, "told": [], **more}
    )


def test_what_a_layer_and_a_head_answer_stays_within_rounding():
    model, here = Model(), process()
    given, bias = torch.randn(3, 256), torch.randn(512)
    by_layer = torch.nn.functional.linear(given, model.up.weight, bias)
    by_head = torch.nn.functional.linear(given, model.lm_head.weight)
    linear.prepack(model, here)
    torch.testing.assert_close(
        model.up.quant_method.apply(model.up, given, bias), by_layer, atol=1e-4, rtol=1e-5
    )
    torch.testing.assert_close(
        model.lm_head.quant_method.apply(model.lm_head, given), by_head, atol=1e-4, rtol=1e-5
    )


def test_embeddings_that_share_a_weight_with_the_head_are_looked_up_as_before():
    model = Model()
    before = model.words.weight.clone()
    linear.prepack(model, process())
    ids = torch.tensor([5, 0])
    assert torch.equal(model.words.quant_method.embedding(model.words, ids), before[ids])
    assert torch.equal(model.lm_head.quant_method.embedding(model.lm_head, ids), before[ids])


def test_small_layers_and_other_dtypes_answer_by_their_own_weights_to_the_bit():
    model = Model()
    given = {"halved": torch.randn(3, 256).half(), "small": torch.randn(3, 4)}
    before = {n: model.get_submodule(n).weight.clone() for n in given}
    linear.prepack(model, process())
    for name, one in given.items():
        alone = model.get_submodule(name)
        assert alone.weight.layout == torch.strided
        found = alone.quant_method.apply(alone, one)
        assert torch.equal(found, torch.nn.functional.linear(one, before[name]))


def test_a_convolution_that_vllm_loads_as_a_linear_layer_keeps_its_weight():
    """Models with states do so: Mamba, GDN."""
    model, here = torch.nn.Module(), process()
    model.conv1d = layer(LinearBase, UnquantizedLinearMethod(), torch.randn(40_000, 1, 4))
    before = model.conv1d.weight
    linear.prepack(model, here)
    assert torch.equal(model.conv1d.weight, before) and here.products is None


def test_who_multiplies_is_listed_with_the_operators():
    here = process()
    linear.prepack(Model(), here)
    assert here.products == ("linear", "onednn", "oneDNN multiplies in 2 linear layers")


@pytest.mark.parametrize(
    "rule", [{"overrides": ["aten::addmm by the reference"]}, {"products_are_tied": True}]
)
def test_where_a_rule_gave_operators_to_somebody_the_products_are_theirs(rule):
    model, here = Model(), process(**rule)
    linear.prepack(model, here)
    assert type(model.up.quant_method) is UnquantizedLinearMethod and here.products is None


def test_weights_that_were_laid_out_are_not_loaded_again_and_stay_as_they_are():
    from jumar.contracts.errors import InvalidRequest
    from jumar.vllm.runner import CPURunner

    runner = CPURunner.__new__(CPURunner)
    runner.model = Model()
    linear.prepack(runner.model, process())
    before = runner.model.up.weight
    with pytest.raises(InvalidRequest, match="cannot be loaded again"):
        runner.reload_weights()
    assert runner.model.up.weight is before

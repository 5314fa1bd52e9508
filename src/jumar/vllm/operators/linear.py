"""Linear layers and heads on the CPU: oneDNN multiplies by weights that lie as it wants them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from vllm.model_executor.layers.linear import LinearBase, UnquantizedLinearMethod
from vllm.model_executor.layers.vocab_parallel_embedding import (
    UnquantizedEmbeddingMethod,
    VocabParallelEmbedding,
)

from jumar.devices import prepacking
from jumar.vllm.operators.process import Bound, Process


def prepack(model: torch.nn.Module, here: Process) -> None:
    """Lay out the weights of a loaded model, and note in `here` who multiplies by them.

    Where a rule or evidence gave operators of torch's to somebody, nothing is: the products are
    theirs to compute.
    """
    if here.overrides or here.products_are_tied or not prepacking.available():
        return
    told = prepacking.Prepacked()
    for name, layer in _layers(model):
        weight, product = layer.weight.data, torch.nn.functional.linear
        if prepacking.worth_it(weight):
            if (blocks := prepacking.prepacked(weight)) is None:
                told.refuse(name)
            else:
                weight, product = blocks, prepacking.product
                told.layers += 1
        if isinstance(layer, LinearBase):
            layer.weight = torch.nn.Parameter(weight, requires_grad=False)
            layer.quant_method = Linear(product)
        elif product is prepacking.product:
            layer.quant_method = Head(weight)
    if told.layers:
        here.products = Bound("linear", "onednn", str(told))
    else:
        here.told += told.refused


class Linear(UnquantizedLinearMethod):
    """Multiplies by the layer's weight, as it lies; without vLLM's detours on the way there."""

    def __init__(self, product: Callable[..., torch.Tensor]) -> None:
        self._product = product

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[..., in] → [..., out]."""
        return self._product(x, layer.weight, bias)


def is_ours(model: torch.nn.Module) -> bool:
    """Whether layers of a model multiply by weights that are not vLLM's to write to any more."""
    return any(isinstance(getattr(one, "quant_method", None), Linear) for one in model.modules())


class Head(UnquantizedEmbeddingMethod):
    """Multiplies by blocks of its own: the layer's weight may be looked up as embeddings too."""

    def __init__(self, blocks: torch.Tensor) -> None:
        self._blocks = blocks

    def apply(
        self, layer: torch.nn.Module, x: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        """[..., in] → [..., words], float32."""
        return prepacking.product(x, self._blocks, bias)


def _layers(model: torch.nn.Module) -> list[tuple[str, Any]]:
    """Unquantised linear layers, and heads."""
    heads = {id(head) for one in model.modules() if (head := getattr(one, "lm_head", None))}
    return [
        (name, layer)
        for name, layer in model.named_modules()
        if (
            (isinstance(layer, LinearBase) and type(layer.quant_method) is UnquantizedLinearMethod)
            or (
                isinstance(layer, VocabParallelEmbedding)
                and type(layer.quant_method) is UnquantizedEmbeddingMethod
                and id(layer) in heads
            )
        )
    ]

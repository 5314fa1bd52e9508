"""The comparison with transformers sees what it should: with one thing wrong in the engine the
tokens differ, and without it they are equal again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.vllm import references
from tests.vllm.engines import answers, engine, runner

pytest.importorskip("vllm")

COUNT = 16
Break = Callable[[Any, pytest.MonkeyPatch], None]


@pytest.fixture(scope="module")
def llm(tiny: Callable[[str], Path]) -> Iterator[Any]:
    with engine(tiny("qwen3"), enable_prefix_caching=False) as llm:
        yield llm


@pytest.fixture(scope="module")
def wanted(tiny: Callable[[str], Path]) -> list[list[int]]:
    return references.greedy(tiny("qwen3"), references.MIXED, COUNT)


def wrong_scale(llm: Any, patch: pytest.MonkeyPatch) -> None:
    for impl in attention(llm):
        patch.setattr(impl, "formula", replace(impl.formula, scale=impl.scale * 1.1))


def no_causal_mask(llm: Any, patch: pytest.MonkeyPatch) -> None:
    for impl in attention(llm):
        patch.setattr(impl, "formula", acausal(impl.formula))


def acausal(formula: Callable[..., None]) -> Callable[..., None]:
    return lambda batch, q, k, v, causal, output: formula(batch, q, k, v, False, output)


def slots_off_by_one(llm: Any, patch: pytest.MonkeyPatch) -> None:
    from vllm.v1.worker.block_table import BlockTable

    right = BlockTable.compute_slot_mapping

    def compute(self: Any, *args: Any, **kwargs: Any) -> None:
        right(self, *args, **kwargs)
        slots = self.slot_mapping.gpu
        slots[slots > 0] -= 1

    patch.setattr(BlockTable, "compute_slot_mapping", compute)


def another_activation(llm: Any, patch: pytest.MonkeyPatch) -> None:
    import torch

    def gelu_and_mul(x: torch.Tensor) -> torch.Tensor:
        gate, up = x.chunk(2, -1)
        return torch.nn.functional.gelu(gate) * up

    for layer in runner(llm).model.modules():
        if type(layer).__name__ == "SiluAndMul":
            patch.setattr(layer, "implementation", gelu_and_mul)


def attention(llm: Any) -> list[Any]:
    """What computes the attention of each layer."""
    layers = llm.llm_engine.vllm_config.compilation_config.static_forward_context.values()
    return [layer.impl for layer in layers]


BREAKS: dict[str, Break] = {
    "scale": wrong_scale,
    "mask": no_causal_mask,
    "slots": slots_off_by_one,
    "operator": another_activation,
}


@pytest.mark.parametrize("name", BREAKS)
def test_tokens_differ_while_something_is_wrong_and_are_equal_again_after(
    name: str, llm: Any, wanted: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        BREAKS[name](llm, patch)
        broken = answers(llm, references.MIXED, COUNT)
    differ = sum(a != b for a, b in zip(broken, wanted, strict=True))
    assert differ >= 5, f"{differ} of {len(wanted)} prompts"
    assert answers(llm, references.MIXED, COUNT) == wanted

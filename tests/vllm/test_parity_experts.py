"""What a router says of its experts' weights reaches the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.vllm import references
from tests.vllm.engines import answers, engine, runner

pytest.importorskip("vllm")


@pytest.mark.long
def test_a_factor_of_routed_experts_that_is_dropped_is_noticed(
    tiny: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = references.greedy(tiny("glm4_moe"), references.MIXED, 16)
    with engine(tiny("glm4_moe"), enable_prefix_caching=False) as llm:
        assert answers(llm, references.MIXED, 16) == wanted
        scaled = [
            layer
            for layer in runner(llm).model.modules()
            if getattr(layer, "routed_scaling_factor", 1.0) != 1.0
        ]
        assert scaled
        for layer in scaled:
            monkeypatch.setattr(layer, "routed_scaling_factor", 1.0)
        broken = answers(llm, references.MIXED, 16)
    assert sum(a != b for a, b in zip(broken, wanted, strict=True)) >= 5

"""An engine whose attention is torch_npu's fused kernel, on the emulated NPU, in float16.

JUMAR_EMULATE_NPU=2 pytest tests/vllm/test_attention_served.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.vllm.engines import EMULATED, answers, engine
from tests.vllm.references import prompts

pytest.importorskip("vllm", reason="vLLM is not installed here")
if not EMULATED:
    pytest.skip("no NPU is emulated: JUMAR_EMULATE_NPU=2", allow_module_level=True)

FUSED = "npu_fused_infer_attention_score"
ASKED = prompts((1, 17, 90, 150), seed=11)
NEAR = 0.1
"""Float16 may take another token where its logit is so near the highest; they spread over 30."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 whose heads are of a size that the kernel takes."""
    import torch
    from tests.vllm.models import _decoder, tokenizer
    from transformers import Qwen3Config, Qwen3ForCausalLM

    words = tokenizer()
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(Qwen3Config(**_decoder(words), head_dim=64))
    made = tmp_path_factory.mktemp("qwen3-64")
    model.generation_config.do_sample = False
    model.save_pretrained(made)
    words.save_pretrained(made)
    return made


@pytest.fixture(scope="module")
def llm(folder: Path) -> Iterator[Any]:
    with engine(folder, dtype="float16") as made:
        yield made


def furthest(folder: Path, made: list[list[int]]) -> float:
    """How far below the highest logit a token lies at most, by transformers in float32."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    below = 0.0
    for asked, tokens in zip(ASKED, made, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*asked, *tokens]])).logits[0, len(asked) - 1 : -1]
        chosen = logits.gather(1, torch.tensor(tokens)[:, None])[:, 0]
        below = max(below, float((logits.amax(1) - chosen).max()))
    return below


def test_the_fused_kernel_attends_and_the_tokens_are_those_of_transformers(
    llm: Any, folder: Path
) -> None:
    from jumar.emulator import record

    with record() as called:
        made = answers(llm, ASKED, 24)
    assert f"npu::{FUSED}" in called
    assert not any("scaled_dot_product" in one for one in called)
    assert furthest(folder, made) <= NEAR


def test_a_wrong_kernel_gives_other_tokens(llm: Any, folder: Path) -> None:
    from jumar.emulator import fault

    llm.reset_prefix_cache()
    with fault(FUSED, "wrong", how="lanes"):
        made = answers(llm, ASKED, 24)
    assert furthest(folder, made) > NEAR

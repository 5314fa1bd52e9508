"""Greedy tokens and vectors of an engine are those of Hugging Face transformers, whatever the
scheduler does with a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.vllm import references
from tests.vllm.engines import (
    BLOCKS,
    EMULATED,
    answers,
    arriving,
    engine,
    metric,
    outputs,
    sampling,
)

pytest.importorskip("vllm")

LONG = ("qwen2", "llama", "glm4_moe", "mistral", "gemma2", "bloom")
DECODERS = ["qwen3_moe", "qwen3", *(pytest.param(name, marks=pytest.mark.long) for name in LONG)]
FEWER = {} if EMULATED else {"mistral": 16}
"""Blocks of the cache, where there are enough for all answers: a window's layers free theirs."""

MEASURED = {"kv_cache_memory_bytes": None, "gpu_memory_utilization": 0.1}
"""A profile run says what the cache may take; in the other tests it is named."""


@dataclass(frozen=True)
class Served:
    """An engine, and the folder that transformers reads."""

    llm: Any
    folder: Path


@pytest.fixture(scope="module", params=DECODERS)
def served(request: pytest.FixtureRequest, tiny: Callable[[str], Path]) -> Iterator[Served]:
    folder = tiny(request.param)
    with engine(folder, num_gpu_blocks_override=FEWER.get(request.param, BLOCKS)) as llm:
        yield Served(llm, folder)


def test_tokens_are_equal_for_prompts_of_all_lengths_in_chunks(served: Served) -> None:
    wanted = references.greedy(served.folder, references.MIXED, 24)
    assert answers(served.llm, references.MIXED, 24) == wanted


def test_tokens_are_equal_when_a_prefix_comes_from_the_cache(served: Served) -> None:
    [shared] = references.prompts([140], seed=4)
    asked = references.prompts((1, 9, 30), seed=5, prefix=shared)
    answers(served.llm, asked[:1], 2)
    again = outputs(served.llm, asked, 16)
    assert all(one.num_cached_tokens >= 128 for one in again[1:])
    assert [list(one.outputs[0].token_ids) for one in again] == references.greedy(
        served.folder, asked, 16
    )


def test_tokens_are_equal_for_requests_that_arrive_while_others_decode(served: Served) -> None:
    """Batches of prompts, chunks and single tokens, where rows of the block table are reused."""
    asked = references.prompts((20, 5, 90, 40, 3), seed=8)
    made = arriving(served.llm, asked, 20, every=4)
    assert made == references.greedy(served.folder, asked, 20)


def test_tokens_are_equal_when_requests_are_preempted(served: Served) -> None:
    asked = references.prompts((100, 115, 90, 120, 110, 2), seed=6)
    before = metric(served.llm, "num_preemptions")
    made = answers(served.llm, asked, 40)
    assert metric(served.llm, "num_preemptions") > before, "all answers fitted into the cache"
    assert made == references.greedy(served.folder, asked, 40)


@pytest.mark.parametrize(("name", "at"), [("bert", 0), ("qwen3", -1)])
def test_vectors_are_equal(name: str, at: int, tiny: Callable[[str], Path]) -> None:
    """The first token of an encoder, which sees the whole text; the last one of a decoder."""
    import torch

    folder = tiny(name)
    with engine(folder, runner="pooling", max_num_batched_tokens=256, **MEASURED) as llm:
        asked = references.prompts((1, 3, 17, 33, 60), seed=7)
        made = llm.embed([{"prompt_token_ids": one} for one in asked], use_tqdm=False)
    for one, wanted in zip(made, references.vectors(folder, asked, at), strict=True):
        difference = torch.tensor(one.outputs.embedding) - wanted
        assert float(difference.abs().max()) < 1e-5


def test_tokens_about_pictures_are_equal(tiny: Callable[[str], Path]) -> None:
    """Pictures of several shapes and texts without one, in one batch."""
    from tests.vllm.pictures import SHAPES, asking, drawn

    folder = tiny("qwen2_vl")
    asked = [(asking("What is this?"), drawn(*shape)) for shape in SHAPES]
    asked += [("What is 7 times 8?", None), (asking("Read it."), drawn(48, 32, "Hello"))]
    given = [
        {"prompt": text, **({} if picture is None else {"multi_modal_data": {"image": picture}})}
        for text, picture in asked
    ]
    with engine(folder, max_num_batched_tokens=128, **MEASURED) as llm:
        made = llm.generate(given, sampling(16), use_tqdm=False)
    wanted = references.seen(folder, asked, 16)
    assert [list(one.outputs[0].token_ids) for one in made] == wanted
    blank = references.seen(folder, [(text, p and drawn(*p.size, "")) for text, p in asked], 16)
    assert blank != wanted, "the answers do not depend on the pictures"

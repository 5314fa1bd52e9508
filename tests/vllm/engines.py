"""vLLM's engine in the test's own process, small enough to run out of blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.vllm.references import Tokens

EMULATED = bool(os.environ.get("JUMAR_EMULATE_NPU"))
BLOCKS = 5 if EMULATED else 24
"""Of 128 tokens on an NPU, of 16 on the CPU: less than the answers of a few callers need."""

SMALL: dict[str, Any] = {
    "dtype": "float32",
    "max_model_len": 256,
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,  # longer prompts are cut into chunks
    "num_gpu_blocks_override": BLOCKS,
    "kv_cache_memory_bytes": 64 << 20,
    "disable_log_stats": False,
}


@contextmanager
def engine(folder: Path, **options: Any) -> Iterator[Any]:
    """A `vllm.LLM`; `options` beside those of `SMALL`."""
    from vllm.distributed import cleanup_dist_env_and_memory

    from vllm import LLM

    llm = LLM(model=str(folder), **{**SMALL, **options})
    try:
        yield llm
    finally:
        llm.llm_engine.engine_core.shutdown()
        del llm
        cleanup_dist_env_and_memory()


def answers(llm: Any, asked: Iterable[Sequence[int]], count: int) -> list[Tokens]:
    """`count` greedy tokens for each prompt, all asked at once."""
    return [list(one.outputs[0].token_ids) for one in outputs(llm, asked, count)]


def outputs(llm: Any, asked: Iterable[Sequence[int]], count: int) -> list[Any]:
    """As `answers`, with all that vLLM says of each."""
    given = [{"prompt_token_ids": list(one)} for one in asked]
    return list(llm.generate(given, sampling(count), use_tqdm=False))


def arriving(llm: Any, asked: Sequence[Sequence[int]], count: int, every: int) -> list[Tokens]:
    """As `answers`, asking one more every few steps of the engine."""
    made: dict[str, Tokens] = {}
    waiting = [*enumerate(asked)]
    step = 0
    while waiting or llm.llm_engine.has_unfinished_requests():
        if waiting and step % every == 0:
            at, prompt = waiting.pop(0)
            given = {"prompt_token_ids": list(prompt)}
            llm.llm_engine.add_request(f"arrived-{at}", given, sampling(count))
        for one in llm.llm_engine.step():
            if one.finished:
                made[one.request_id] = list(one.outputs[0].token_ids)
        step += 1
    return [made[f"arrived-{at}"] for at in range(len(asked))]


def sampling(count: int) -> Any:
    """Greedy, and on past the end token."""
    from vllm import SamplingParams

    return SamplingParams(temperature=0, max_tokens=count, ignore_eos=True)


def metric(llm: Any, name: str) -> float:
    """A counter of the engine: `num_preemptions`, `prefix_cache_hits`."""
    return float(sum(one.value for one in llm.get_metrics() if one.name == f"vllm:{name}"))


def runner(llm: Any) -> Any:
    """The model runner of an engine of one rank."""
    return llm.llm_engine.engine_core.engine_core.model_executor.driver_worker.worker.model_runner

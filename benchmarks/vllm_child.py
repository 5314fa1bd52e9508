"""One engine in a process of its own, for `benchmarks.vllm_speed`, asked by lines on stdin.

    python -m benchmarks.vllm_child KIND FOLDER

KIND is `vllm` (on the platform that the environment chooses), `static` (Hugging Face's `generate`
on one padded batch) or `continuous` (its continuous batching). A line in is a JSON list of prompt
tokens and the number of tokens wanted, for each caller; a line out has the seconds that it took by
the clock and of this process's CPU time, and the tokens. What libraries print goes to stderr.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

Asked = list[tuple[list[int], int]]
Engine = Callable[[Asked], list[list[int]]]


def vllm(folder: str) -> Engine:
    """Greedy, each caller as long as wanted, past the end token."""
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=folder,
        dtype="float32",
        max_model_len=1024,
        max_num_seqs=32,
        kv_cache_memory_bytes=1 << 30,
        enable_prefix_caching=False,  # each round asks the same
    )

    def answer(asked: Asked) -> list[list[int]]:
        wanted = [SamplingParams(temperature=0, max_tokens=n, ignore_eos=True) for _, n in asked]
        given: Any = [{"prompt_token_ids": prompt} for prompt, _ in asked]
        made = llm.generate(given, wanted, use_tqdm=False)
        return [list(one.outputs[0].token_ids) for one in made]

    return answer


def static(folder: str) -> Engine:
    """All callers in one batch, which runs until the longest answer is done."""
    import torch

    model = _model(folder)

    def answer(asked: Asked) -> list[list[int]]:
        longest = max(len(prompt) for prompt, _ in asked)
        gaps = [longest - len(prompt) for prompt, _ in asked]
        ids = torch.tensor(
            [[0] * gap + prompt for gap, (prompt, _) in zip(gaps, asked, strict=True)]
        )
        mask = torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps])
        most = max(n for _, n in asked)
        made = model.generate(ids, attention_mask=mask, max_new_tokens=most, do_sample=False)
        rows = made[:, longest:].tolist()
        return [row[:n] for row, (_, n) in zip(rows, asked, strict=True)]

    return answer


def continuous(folder: str) -> Engine:
    """Callers leave the batch as they end."""
    model = _model(folder)

    def answer(asked: Asked) -> list[list[int]]:
        made: dict[str, list[int]] = {}
        with model.continuous_batching_context_manager() as manager:
            names = [
                manager.add_request(prompt, max_new_tokens=n, eos_token_id=-1)
                for prompt, n in asked
            ]
            while len(made) < len(asked):
                one = manager.get_result(timeout=600)
                if one is None:
                    raise RuntimeError("no answer in ten minutes")
                if one.is_finished():
                    made[one.request_id] = list(one.generated_tokens)
        return [made[name] for name in names]

    return answer


def _model(folder: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


KINDS: dict[str, Callable[[str], Engine]] = {
    "vllm": vllm,
    "static": static,
    "continuous": continuous,
}


def main() -> None:
    """Load, say so, and answer lines until there are none."""
    kind, folder = sys.argv[1:]
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    begun = time.monotonic()
    answer = KINDS[kind](folder)
    print(json.dumps({"loaded": time.monotonic() - begun}), file=out)
    for line in sys.stdin:
        wall, cpu = time.monotonic(), time.process_time()
        tokens = answer([(prompt, n) for prompt, n in json.loads(line)])
        seconds = time.monotonic() - wall, time.process_time() - cpu
        print(json.dumps({"wall": seconds[0], "cpu": seconds[1], "tokens": tokens}), file=out)


if __name__ == "__main__":
    main()

"""Golden answers of a served model: the tokens and logits that Hugging Face's model gives.

The reference is computed on the CPU in float32 by `transformers`, which shares no operator with the
engine. The engine is asked the same before it listens: each prompt alone, all in one batch, and all
once more (then its prefix cache answers). In float32 it has to give the same tokens; in every
format the log probabilities of the reference's own continuation, within the format's rounding.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidInput, ParityFailed
from jumar.lab.golden.base import Golden, Key, Reference, Request
from jumar.lab.golden.files import read, write
from jumar.parity.answers import Answer, apart
from jumar.vllm.healing.steps import STATE

GOLDEN = "JUMAR_VLLM_GOLDEN"
"""The folder of the golden set that a server holds itself to before it listens."""

FAILED = "golden-failed.txt"
"""In the state folder: what the answers were not."""

LENGTH = 24
"""Tokens that each prompt is continued by."""

TEXTS = {
    "short": "Hello",
    "sentence": "The climber put a jumar on the rope, and from then on she could only go up.",
    "long": "An ascender grips the line and slides only upwards. " * 24,  # over several blocks
    "non-latin": "攀登者把上升器扣在绳上。Кто идёт вверх?",
}

log = logging.getLogger(__name__)


def record(model: str, folder: str | Path) -> Path:
    """Ask `transformers` on the CPU in float32, and write the golden set; gives its file.

    Raises:
        InvalidInput: `model` is no folder of a causal language model.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{model} is no causal language model: {error}", param="model"
        ) from error
    requests, answers = [], {}
    for name, text in TEXTS.items():
        prompt = tokenizer(text)["input_ids"]
        continued = _greedy(loaded, prompt)
        requests.append(Request(name, {"prompt": prompt, "continued": continued}, covers=(name,)))
        answers[name] = {
            "tokens.0": Answer("words", _words(continued)),
            "logits.0": Answer("logit", _scores(loaded, prompt, continued)),
        }
    made_on = {"torch": str(torch.__version__), "made_by": "transformers"}
    reference = Reference(Key("cpu", "fp32", ""), made_on, answers, "itself only")
    golden = Golden(str(model), "", "text", tuple(requests), (reference,))
    return write(golden, folder)


def _greedy(model: Any, prompt: list[int]) -> list[int]:
    """The most probable token, LENGTH times, without a cache of keys and values."""
    import torch

    known = torch.tensor([prompt])
    with torch.inference_mode():
        for _ in range(LENGTH):
            best = model(known).logits[:, -1].argmax(-1, keepdim=True)
            known = torch.cat([known, best], 1)
    return [int(token) for token in known[0, len(prompt) :]]


def _scores(model: Any, prompt: list[int], continued: list[int]) -> Any:
    """Log probability of each token of the continuation, float64 [LENGTH]."""
    import torch

    whole = torch.tensor([prompt + continued])
    with torch.inference_mode():
        scores = model(whole).logits[0].double().log_softmax(-1)
    at = torch.arange(len(prompt) - 1, whole.shape[1] - 1)
    return scores[at, whole[0, len(prompt) :]].numpy()


def _words(tokens: Sequence[int]) -> str:
    return " ".join(map(str, tokens))


async def hold(engine: Any) -> None:
    """Ask an engine (vLLM's `EngineClient`) its golden requests, where `JUMAR_VLLM_GOLDEN` names
    any.

    Raises:
        InvalidInput: the folder is no golden set.
        ParityFailed: an answer is not what it has to be.
    """
    if not (folder := os.environ.get(GOLDEN)):
        return
    golden = read(folder)
    dtype = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}.get(
        str(engine.model_config.dtype), "bf16"
    )
    findings = [finding async for finding in _findings(golden, engine, dtype)]
    if findings:
        text = "\n".join(findings)
        if state := os.environ.get(STATE):
            (Path(state) / FAILED).write_text(text)
        raise ParityFailed(
            f"{len(findings)} golden answers do not match. First: {findings[0]}",
            hint="`jumar vllm serve` finds the operator, and starts again without it.",
        )
    told = "Golden answers matched: %d prompts, alone, batched and again."
    log.warning(told, len(golden.requests))


async def _findings(golden: Golden, engine: Any, dtype: str) -> Any:
    wanted = golden.references[0].answers
    rounds: list[tuple[str, list[Request]]] = [(one.name, [one]) for one in golden.requests]
    rounds += [("batched", list(golden.requests)), ("again", list(golden.requests))]
    for name, requests in rounds:
        told = await asyncio.gather(*(_told(engine, one, f"{name}-{one.name}") for one in requests))
        for request, answers in zip(requests, told, strict=True):
            for finding in _off(wanted[request.name], answers, dtype):
                yield f"{name}, {request.name}: {finding}"


def _off(wanted: Any, told: dict[str, Answer], dtype: str) -> Iterator[str]:
    for name, answer in wanted.items():
        if answer.quantity == "words" and dtype != "fp32":
            continue  # near ties turn over in a narrow format
        if far := apart(answer, told[name], rounding=dtype):
            yield f"{name}: {far.reason}"


async def _told(engine: Any, request: Request, name: str) -> dict[str, Answer]:
    """What the engine says: its own continuation, and the scores of the reference's."""
    import numpy as np

    from vllm import SamplingParams

    prompt, continued = request.inputs["prompt"], request.inputs["continued"]
    free = SamplingParams(temperature=0, max_tokens=len(continued), ignore_eos=True)
    forced = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    own = await _last(engine, prompt, free, f"golden-{name}-free")
    told = await _last(engine, prompt + continued, forced, f"golden-{name}-forced")
    rows = list(told.prompt_logprobs)[len(prompt) :]
    scores = [row[token].logprob for row, token in zip(rows, continued, strict=True)]
    return {
        "tokens.0": Answer("words", _words(own.outputs[0].token_ids)),
        "logits.0": Answer("logit", np.asarray(scores, dtype=np.float64)),
    }


async def _last(engine: Any, prompt: list[int], sampling: Any, name: str) -> Any:
    last = None
    async for output in engine.generate({"prompt_token_ids": prompt}, sampling, name):
        last = output
    assert last is not None
    return last

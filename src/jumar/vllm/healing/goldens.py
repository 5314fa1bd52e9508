"""Golden answers of a served model: what Hugging Face's model says, as `recording` wrote it.

The reference was computed on the CPU in float32 by `transformers`, which shares no operator with
the engine. The engine is asked the same before it listens: each prompt alone, all in one batch, and
all once more (then its prefix cache answers). In float32 it has to give the same tokens; in every
format the log probabilities of the reference's own continuation, the vector or the classes, within
the format's rounding.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from jumar.contracts.errors import InvalidInput, JumarError, ParityFailed, did_you_mean
from jumar.lab.golden.base import Answers, Golden, Request
from jumar.lab.golden.files import read
from jumar.parity.answers import Answer, apart
from jumar.vllm.activation import LOGGER
from jumar.vllm.healing.program import Asked
from jumar.vllm.healing.recording import words
from jumar.vllm.healing.steps import STATE

GOLDEN = "JUMAR_VLLM_GOLDEN"
"""The folder of the golden set that a server holds itself to before it listens."""

FAILED = "golden-failed.txt"
"""In the state folder: what the answers were not."""

REFUSED = "golden-refused.txt"
"""The same where they cannot be held against this server at all: no operator is to blame."""


async def hold(engine: Any) -> None:
    """Ask an engine (vLLM's `EngineClient`) its golden requests, where `JUMAR_VLLM_GOLDEN` names
    any.

    Raises:
        InvalidInput: the folder is no golden set, or none of what this engine serves.
        ParityFailed: an answer is not what it has to be.
    """
    if not (folder := os.environ.get(GOLDEN)):
        return
    golden = read(folder)
    try:
        _fits(golden, engine.model_config)
    except InvalidInput as error:
        _tell(REFUSED, told(error))
        raise
    dtype = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}.get(
        str(engine.model_config.dtype), "bf16"
    )
    findings = [finding async for finding in _findings(golden, engine, dtype)]
    if findings:
        _tell(FAILED, "\n".join(findings))
        raise ParityFailed(
            f"{len(findings)} golden answers do not match. First: {findings[0]}",
            hint="`jumar vllm serve` finds the operator, and starts again without it.",
        )
    matched = "Golden answers matched: %d prompts, alone, batched and again."
    LOGGER.info(matched, len(golden.requests))


def told(error: JumarError) -> str:
    """An error in a line: what happened, and what to do."""
    return " ".join(filter(None, (error.message, error.hint)))


def _tell(name: str, text: str) -> None:
    """Leave it for whoever watches this server."""
    if state := os.environ.get(STATE):
        (Path(state) / name).write_text(text)


def requests(folder: str | Path) -> list[Asked]:
    """The requests of a golden set as callers would make them."""
    golden = read(folder)
    return [_task(golden).asked(one) for one in golden.requests]


def _fits(golden: Golden, config: Any) -> None:
    """Raises InvalidInput where these answers are of another use of the model."""
    hint = "`jumar vllm golden` records others: see its --task and --pooling."
    pools = _task(golden).runner == "pooling"
    if pools is not (config.runner_type == "pooling"):
        raise InvalidInput(
            f"The golden answers are of {golden.task}; this server's runner is"
            f" {config.runner_type}.",
            hint=hint,
        )
    own = str(getattr(config.pooler_config, "seq_pooling_type", "")).lower()
    for request in golden.requests:
        recorded = request.inputs.get("pooling", own)
        if recorded != own:
            raise InvalidInput(
                f"The golden vectors are pooled by {recorded}; this server pools by {own}.",
                hint=hint,
            )
        length = len(request.inputs["prompt"]) + len(request.inputs.get("continued", ()))
        if length + (not pools) > config.max_model_len:
            raise InvalidInput(
                f"The golden request {request.name!r} takes {length} tokens; this server takes"
                f" {config.max_model_len}.",
                hint=f"--max-model-len {length + 1}, or more.",
            )


async def _findings(golden: Golden, engine: Any, dtype: str) -> Any:
    wanted = golden.references[0].answers
    ask = _task(golden).ask
    rounds: list[tuple[str, list[Request]]] = [(one.name, [one]) for one in golden.requests]
    rounds += [("batched", list(golden.requests)), ("again", list(golden.requests))]
    for name, requests in rounds:
        told = await asyncio.gather(
            *(ask(engine, one, f"golden-{name}-{one.name}") for one in requests)
        )
        for request, answers in zip(requests, told, strict=True):
            for finding in _off(wanted[request.name], answers, dtype):
                yield f"{name}, {request.name}: {finding}"


def _off(wanted: Answers, told: Answers, dtype: str) -> Iterator[str]:
    for name, answer in wanted.items():
        if answer.quantity == "words" and dtype != "fp32":
            continue  # near ties turn over in a narrow format
        if far := apart(answer, told[name], rounding=dtype):
            yield f"{name}: {far.reason}"


# ---- how an engine is asked ---------------------------------------------------------------------


class Task(NamedTuple):
    """vLLM's runner for it, what asks an engine, and what a caller would ask."""

    runner: str
    ask: Callable[[Any, Request, str], Awaitable[Answers]]
    asked: Callable[[Request], Asked]


async def _continued(engine: Any, request: Request, name: str) -> Answers:
    """Its own continuation, and the scores of the reference's."""
    import numpy as np

    from vllm import SamplingParams

    prompt, continued = request.inputs["prompt"], request.inputs["continued"]
    free = SamplingParams(temperature=0, max_tokens=len(continued), ignore_eos=True)
    forced = SamplingParams(temperature=0, max_tokens=1, prompt_logprobs=0)
    own = await _last(engine.generate, prompt, free, f"{name}-free")
    told = await _last(engine.generate, prompt + continued, forced, f"{name}-forced")
    rows = list(told.prompt_logprobs)[len(prompt) :]
    scores = [row[token].logprob for row, token in zip(rows, continued, strict=True)]
    return {
        "tokens.0": Answer("words", words(own.outputs[0].token_ids)),
        "logits.0": Answer("logit", np.asarray(scores, dtype=np.float64)),
    }


async def _vector(engine: Any, request: Request, name: str) -> Answers:
    """Its vector, of length one however it is served."""
    return {"vector.0": Answer("vector", await _pooled(engine, request, name, "embed"))}


async def _classes(engine: Any, request: Request, name: str) -> Answers:
    """What callers get. (Without its last activation vLLM leaves out tanh in BERT's pooler too.)"""
    told = await _pooled(engine, request, name, "classify")
    return {"classes.0": Answer(request.inputs["quantity"], told)}


async def _pooled(engine: Any, request: Request, name: str, task: Any) -> Any:
    from vllm import PoolingParams

    params = PoolingParams(task=task, use_activation=True)
    told = await _last(engine.encode, request.inputs["prompt"], params, name)
    return told.outputs.data.double().cpu().numpy()


async def _last(asking: Any, prompt: list[int], params: Any, name: str) -> Any:
    last = None
    async for output in asking({"prompt_token_ids": prompt}, params, name):
        last = output
    assert last is not None
    return last


def _completion(request: Request) -> Asked:
    body = {"prompt": request.inputs["prompt"], "max_tokens": len(request.inputs["continued"])}
    return Asked("/v1/completions", {**body, "temperature": 0, "ignore_eos": True})


TASKS = {
    "text": Task("generate", _continued, _completion),
    "embeddings": Task(
        "pooling", _vector, lambda one: Asked("/v1/embeddings", {"input": one.inputs["prompt"]})
    ),
    "classification": Task(
        "pooling", _classes, lambda one: Asked("/classify", {"input": one.inputs["prompt"]})
    ),
}


def _task(golden: Golden) -> Task:
    if golden.task not in TASKS:
        raise InvalidInput(
            f"No server of vLLM is held to golden answers of {golden.task!r}.",
            hint=did_you_mean(golden.task, TASKS),
        )
    return TASKS[golden.task]

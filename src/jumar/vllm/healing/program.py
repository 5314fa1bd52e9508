"""An engine in this very process, as the lab's trials run it: the same flags, the same requests.

A program of the lab is a function of a module that prepares and gives the function that works. The
engine core, the worker and the operators all run in the calling thread, where modes of torch's
dispatcher see them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jumar.vllm.healing.steps import SHADOW, STATE

PRELOAD = ("torch", "torch._dynamo", "torch.utils.flop_counter", "transformers", "vllm")

LENGTH = 64
"""Tokens that a request gets here at most: a fault that it met later is not met again."""


@dataclass(frozen=True)
class Asked:
    """A request that a caller made: the route, and its body."""

    path: str
    body: Mapping[str, Any] = field(default_factory=dict)


USUAL = {
    "generate": Asked("/v1/completions", {"prompt": "Hello", "max_tokens": 16, "temperature": 0}),
    "pooling": Asked("/pooling", {"input": "Hello"}),
}
"""What is asked where nobody asked anything yet, by vLLM's name of the runner."""


def engine(
    flags: Sequence[str], asked: Sequence[Asked], *, shadow: int = 0, state: str = ""
) -> Callable[[], list[Any]]:
    """Load the model as `vllm serve` with these flags does; what is returned asks it.

    One step in `shadow` is judged, 0 for none; `state` is the folder where it tells what it finds.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ[STATE] = state
    os.environ[SHADOW] = str(shadow)
    from vllm.engine.arg_utils import EngineArgs

    from vllm import LLM

    arguments = EngineArgs.from_cli_args(parsed(flags))
    for kind in ("tensor", "pipeline", "data"):  # ranks are processes, into which no mode sees
        setattr(arguments, f"{kind}_parallel_size", 1)
    llm = LLM(**vars(arguments))
    asked = asked or [USUAL[llm.llm_engine.vllm_config.model_config.runner_type]]
    work = [prepared for one in asked if (prepared := _work(llm, one)) is not None]
    return lambda: [ask() for ask in work]


def judged(flags: Sequence[str], asked: Sequence[Asked], state: str) -> Callable[[Any], list[Any]]:
    """The same with each step judged, for a child that is called."""
    work = engine(flags, asked, shadow=1, state=state)
    return lambda _: work()


def parsed(flags: Sequence[str]) -> Any:
    """The flags of `vllm serve` as vLLM's own parser reads them."""
    try:
        from vllm.entrypoints.openai.cli_args import make_arg_parser
    except ModuleNotFoundError:  # vLLM 0.33
        from vllm.entrypoints.common.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    arguments = make_arg_parser(FlexibleArgumentParser()).parse_args(list(flags))
    arguments.model = arguments.model_tag or arguments.model
    return arguments


def _work(llm: Any, asked: Asked) -> Callable[[], Any] | None:
    """The request as a call of the engine; None for routes that compute nothing."""
    for end, work in ROUTES.items():
        if asked.path.endswith(end):
            return partial(work, llm, asked.body)
    return None


def _chat(llm: Any, body: Mapping[str, Any]) -> Any:
    return _tokens(llm.chat(list(body.get("messages", ())), _sampling(body), use_tqdm=False))


def _completed(llm: Any, body: Mapping[str, Any]) -> Any:
    prompts = _prompts(body.get("prompt", ""))
    return _tokens(llm.generate(prompts, _sampling(body), use_tqdm=False))


def _pooled(llm: Any, body: Mapping[str, Any], task: str | None = None) -> Any:
    task = task or body.get("task") or llm.pooling_task
    told = llm.encode(_prompts(body.get("input", "")), pooling_task=task, use_tqdm=False)
    return [one.outputs.data for one in told]


def _scored(llm: Any, body: Mapping[str, Any], left: str, right: str) -> Any:
    told = llm.score(body.get(left, ""), body.get(right, ""), use_tqdm=False)
    return [one.outputs.score for one in told]


ROUTES: dict[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "/chat/completions": _chat,
    "/completions": _completed,
    "/embeddings": partial(_pooled, task="embed"),
    "/classify": partial(_pooled, task="classify"),
    "/pooling": _pooled,
    "/score": partial(_scored, left="text_1", right="text_2"),
    "/rerank": partial(_scored, left="query", right="documents"),
}
"""What computes something, by the end of the path: the first that fits."""


def _sampling(body: Mapping[str, Any]) -> Any:
    from vllm import SamplingParams

    named = ("temperature", "top_p", "top_k", "min_p", "seed", "logprobs", "repetition_penalty",
             "presence_penalty", "frequency_penalty", "ignore_eos")  # fmt: skip
    given = {name: body[name] for name in named if body.get(name) is not None}
    given["logprobs"] = int(given.get("logprobs", 0)) or None
    length = body.get("max_completion_tokens") or body.get("max_tokens") or LENGTH
    return SamplingParams(max_tokens=min(int(length), LENGTH), **given)


def _prompts(given: Any) -> list[Any]:
    """OpenAI's `prompt`: a text, texts, token ids, or lists of token ids."""
    if isinstance(given, str):
        return [given]
    if given and isinstance(given[0], int):
        return [{"prompt_token_ids": list(given)}]
    return [one if isinstance(one, str) else {"prompt_token_ids": list(one)} for one in given]


def _tokens(outputs: Any) -> list[list[int]]:
    return [list(one.outputs[0].token_ids) for one in outputs]

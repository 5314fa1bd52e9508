"""What Hugging Face transformers answers: the reference of every engine here.

greedy(folder, prompts, 24)     tokens, one prompt at a time
seen(folder, asked, 24)         the same with a picture each
vectors(folder, prompts)        one vector a text
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
import transformers

Tokens = list[int]


def prompts(lengths: Iterable[int], seed: int = 3, prefix: Sequence[int] = ()) -> list[Tokens]:
    """Random prompts in the vocabulary of the tiny models, without its special tokens."""
    draw = random.Random(seed)
    return [[*prefix, *(draw.randrange(7, 500) for _ in range(length))] for length in lengths]


MIXED = prompts((1, 3, 17, 33, 64, 150, 7))
"""Shorter than a block, a block and one, several blocks, more than a step takes at once."""


def greedy(
    folder: Path, asked: Iterable[Sequence[int]], count: int, stop: int | None = None
) -> list[Tokens]:
    """`count` tokens in float32 for each prompt, fewer where `stop` comes before."""
    model = _loaded("AutoModelForCausalLM", folder)
    given = ({"input_ids": torch.tensor([one])} for one in asked)
    return [_continued(model, one, count, stop) for one in given]


def seen(folder: Path, asked: Iterable[tuple[str, Any]], count: int) -> list[Tokens]:
    """As `greedy`, for texts with their picture (None where there is none)."""
    model = _loaded("AutoModelForImageTextToText", folder)
    processor = transformers.AutoProcessor.from_pretrained(folder)
    made = []
    for text, picture in asked:
        pictures = {} if picture is None else {"images": [picture]}
        given = processor(text=[text], return_tensors="pt", **pictures)
        made.append(_continued(model, dict(given), count))
    return made


def vectors(folder: Path, asked: Iterable[Sequence[int]], at: int) -> list[torch.Tensor]:
    """The last hidden state of the token at index `at`, of length one."""
    model = _loaded("AutoModel", folder)
    with torch.inference_mode():
        states = [model(torch.tensor([one])).last_hidden_state[0, at] for one in asked]
    return [torch.nn.functional.normalize(state, dim=0) for state in states]


@lru_cache(maxsize=1)
def _loaded(kind: str, folder: Path) -> Any:
    return getattr(transformers, kind).from_pretrained(folder, dtype=torch.float32).eval()


def _continued(model: Any, given: dict[str, Any], count: int, stop: int | None = None) -> Tokens:
    model.generation_config.eos_token_id = stop
    given.setdefault("attention_mask", torch.ones_like(given["input_ids"]))
    with torch.inference_mode():
        made = model.generate(**given, max_new_tokens=count, do_sample=False)
    tokens: Tokens = made[0, given["input_ids"].shape[1] :].tolist()
    return tokens

"""Words that a pipeline's tokenizers would cut off without a word."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

NO_LIMIT = 100_000
"""transformers says 10**30 where a tokenizer has no limit of its own."""


def cut_words(pipeline: Any, prompt: str, config: Mapping[str, Any]) -> dict[str, str]:
    """For each tokenizer whose limit the prompt exceeds: the text that it will not see."""
    found = {}
    for name, tokenizer in pipeline.components.items():
        if not name.startswith("tokenizer") or not callable(tokenizer):
            continue
        limit = _limit(pipeline, tokenizer, config)
        tokens = tokenizer(prompt, truncation=False, verbose=False)["input_ids"]
        if len(tokens) > limit:
            # The last place is kept for the end token, which is the last of `tokens` too.
            special = tokenizer.num_special_tokens_to_add() > 0
            rest = tokens[limit - 1 : -1] if special else tokens[limit:]
            found[name] = tokenizer.decode(rest, skip_special_tokens=True).strip()
    return found


def _limit(pipeline: Any, tokenizer: Any, config: Mapping[str, Any]) -> int:
    """Tokens that this tokenizer may give: CLIP's own limit, else `max_sequence_length`."""
    own = min(int(tokenizer.model_max_length), NO_LIMIT)
    if "CLIP" in type(tokenizer).__name__:
        return own
    default = inspect.signature(type(pipeline).__call__).parameters.get("max_sequence_length")
    asked = config.get("max_sequence_length") or (default.default if default else None)
    return min(own, asked) if isinstance(asked, int) else own

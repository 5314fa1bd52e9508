"""How a sentence-transformers folder turns hidden states into one vector per text.

`modules.json` lists the steps, `1_Pooling/config.json` the pooling, `sentence_bert_config.json`
the longest text, `config_sentence_transformers.json` a prompt put before each text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import WeightsUnavailable

if TYPE_CHECKING:
    import torch

    Pool = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

_KEY = "pooling_mode_"


def _mean(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1)


def _mean_sqrt_len(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (states * mask).sum(1) / mask.sum(1).sqrt()


def _max(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states.masked_fill(mask == 0, float("-inf")).amax(1)


def _cls(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return states[:, 0]


def _last(states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The last token that is none of the padding, which stands on the right."""
    place = mask[:, :, 0].sum(1).long() - 1
    return states[range(len(states)), place]


POOLING: dict[str, Pool] = {
    "cls_token": _cls,
    "mean_tokens": _mean,
    "max_tokens": _max,
    "mean_sqrt_len_tokens": _mean_sqrt_len,
    "lasttoken": _last,
}
"""By the name after `pooling_mode_`: float32 states [n, tokens, dim], mask [n, tokens, 1]."""


@dataclass(frozen=True)
class Recipe:
    """`pooling` names POOLING's rows, several are concatenated. `longest` is in tokens."""

    pooling: tuple[str, ...] = ("mean_tokens",)
    normalize: bool = False
    longest: int | None = None
    prompt: str = ""
    lower: bool = False

    @classmethod
    def read(cls, folder: Path) -> Recipe:
        """What the folder says; mean pooling where it says nothing, as sentence-transformers does.

        Raises:
            WeightsUnavailable: a step or a pooling that Jumar does not have.
        """
        steps = _json(folder / "modules.json") or []
        kinds = {str(step["type"]).rpartition(".")[2]: folder / step["path"] for step in steps}
        if unknown := kinds.keys() - {"Transformer", "Pooling", "Normalize"}:
            raise WeightsUnavailable(
                f"{folder} has a step that Jumar does not know: {', '.join(sorted(unknown))}.",
                hint="Transformer, Pooling and Normalize are known.",
            )
        transformer = _json(folder / "sentence_bert_config.json") or {}
        settings = _json(folder / "config_sentence_transformers.json") or {}
        prompt = (settings.get("prompts") or {}).get(settings.get("default_prompt_name"), "")
        return cls(
            pooling=_pooling(kinds["Pooling"]) if "Pooling" in kinds else cls.pooling,
            normalize="Normalize" in kinds,
            longest=transformer.get("max_seq_length"),
            prompt=prompt,
            lower=bool(transformer.get("do_lower_case")),
        )

    def written(self, text: str) -> str:
        """The text as the tokenizer is to have it."""
        text = self.prompt + text
        return text.lower() if self.lower else text

    def pool(self, states: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Hidden states [n, tokens, dim] and mask [n, tokens] → float32 [n, dim * poolings]."""
        import torch

        states, mask = states.float(), mask[..., None].float()
        return torch.cat([POOLING[name](states, mask) for name in self.pooling], dim=1)


def _pooling(folder: Path) -> tuple[str, ...]:
    settings = _json(folder / "config.json") or {}
    chosen = [key[len(_KEY) :] for key in settings if key.startswith(_KEY) and settings[key]]
    if unknown := [name for name in chosen if name not in POOLING]:
        raise WeightsUnavailable(
            f"{folder} pools by {unknown[0]}, which Jumar does not know.",
            hint=f"Known: {', '.join(POOLING)}.",
        )
    return tuple(chosen) or Recipe.pooling


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise WeightsUnavailable(f"{path} is no JSON.") from error

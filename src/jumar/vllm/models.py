"""Models that the platform refuses by name: kernels that they need are not here, in any form.

A model that is not refused is served with every layer of it computed; a refusal says what is
missing, and when that would change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jumar.contracts.errors import InvalidValue


@dataclass(frozen=True)
class Refusal:
    """`architectures`: names of model classes, as `config.json` has them."""

    needs: str
    why: str
    architectures: frozenset[str]


GATED_DELTA_NET = Refusal(
    needs="gated delta nets (GDN)",
    why=(
        "vLLM has their operators (chunk_gated_delta_rule, causal_conv1d and their like) in Triton"
        " only, and moved them between versions: what replaced them in 0.20 finds nothing in 0.24,"
        " where they lie in layers/mamba/gdn and layers/fla/ops."
    ),
    architectures=frozenset(
        {
            "KimiLinearForCausalLM",
            "OlmoHybridForCausalLM",
            "Qwen3NextForCausalLM",
            "Qwen3NextMTP",
            "Qwen3_5ForCausalLM",
            "Qwen3_5ForConditionalGeneration",
            "Qwen3_5MoeForCausalLM",
            "Qwen3_5MoeForConditionalGeneration",
            "Qwen3_5MTP",
            "Qwen3_5MoeMTP",
        }
    ),
)
STATE_SPACES = Refusal(
    needs="a state that runs along the sequence (Mamba and its like)",
    why="vLLM has the kernels in Triton and in compiled CUDA only.",
    architectures=frozenset(),
)
"""No list: whatever vLLM itself calls a model with an inner state."""


def refuse(model: Any) -> None:
    """Refuse the model of a `ModelConfig` that cannot be served.

    Raises:
        InvalidValue: names the class, and what it needs.
    """
    for architecture in model.architectures:
        if architecture in GATED_DELTA_NET.architectures:
            raise _refused(architecture, GATED_DELTA_NET)
    if model.has_inner_state:
        raise _refused(model.architectures[0], STATE_SPACES)


def _refused(architecture: str, refusal: Refusal) -> InvalidValue:
    return InvalidValue(
        f"{architecture} is not served on Jumar's platform: it needs {refusal.needs}."
        f" {refusal.why}",
        hint="Models of attention alone are: Qwen2, Qwen3, Qwen3-MoE, Llama, Qwen2-VL.",
        param="model",
    )

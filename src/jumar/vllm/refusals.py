"""What the platform refuses by name: kernels that it needs are here in no form.

What is not refused is computed, every layer of it. A row says what is missing, and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jumar.contracts.errors import InvalidValue

GATED_DELTA_NETS = frozenset(
    {
        "AliceAIForCausalLM",
        "InternS2MobiusForConditionalGeneration",
        "InternS2MobiusMTP",
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
)
"""Model classes of vLLM with gated delta nets, as `config.json` names them."""


@dataclass(frozen=True)
class Refusal:
    """`found` gives the name of what is refused in a `VllmConfig`; None where it is not there."""

    found: Callable[[Any], str | None]
    why: str
    hint: str
    param: str


def _gated_delta_net(config: Any) -> str | None:
    names = config.model_config.architectures if config.model_config else ()
    return next((name for name in names if name in GATED_DELTA_NETS), None)


def _inner_state(config: Any) -> str | None:
    model = config.model_config
    return str(model.architectures[0]) if model is not None and model.has_inner_state else None


def _speculation(config: Any) -> str | None:
    return None if config.speculative_config is None else "Speculative decoding"


def _second_runner(config: Any) -> str | None:
    return "Model runner V2" if config.use_v2_model_runner else None


_SERVED = "Models of attention alone are: Qwen2, Qwen3, Qwen3-MoE, Llama, Qwen2-VL."

REFUSALS = (
    Refusal(
        _gated_delta_net,
        "Its gated delta nets (GDN) need operators (chunk_gated_delta_rule, causal_conv1d and their"
        " like) that vLLM has in Triton only, and moves: since 0.20 to layers/mamba/gdn and"
        " layers/fla/ops (0.24), then to third_party/flash_linear_attention (0.33). A patch of the"
        " old names would do nothing.",
        _SERVED,
        "model",
    ),
    Refusal(
        _inner_state,
        "It keeps a state that runs along the sequence (Mamba and its like), whose kernels vLLM has"
        " in Triton and in compiled CUDA only.",
        _SERVED,
        "model",
    ),
    Refusal(
        _speculation,
        "Its kernels exist in Triton only.",
        "Leave --speculative-config away.",
        "speculative_config",
    ),
    Refusal(
        _second_runner,
        "It exists in Triton only.",
        "Unset VLLM_USE_V2_MODEL_RUNNER.",
        "VLLM_USE_V2_MODEL_RUNNER",
    ),
)


def refuse(config: Any) -> None:
    """Refuse a `VllmConfig` that cannot be served.

    Raises:
        InvalidValue: names what, and says what is missing.
    """
    for row in REFUSALS:
        if name := row.found(config):
            raise InvalidValue(
                f"{name} is not served on Jumar's platform. {row.why}",
                hint=row.hint,
                param=row.param,
            )

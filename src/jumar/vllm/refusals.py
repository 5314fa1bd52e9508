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


def _sparse_attention(config: Any) -> str | None:
    model = config.model_config
    sparse = model is not None and hasattr(model.hf_text_config, "index_topk")
    return str(model.architectures[0]) if sparse else None


def _latent_attention(config: Any) -> str | None:
    model = config.model_config
    return str(model.architectures[0]) if model is not None and model.use_mla else None


def _other_attention(config: Any) -> str | None:
    backend = config.attention_config.backend
    return None if backend is None or backend.name == "CUSTOM" else f"Attention by {backend.name}"


def _quantised_cache(config: Any) -> str | None:
    from jumar.vllm.attention.paged import TorchPagedBackend

    dtype = config.cache_config.cache_dtype
    known = TorchPagedBackend.supported_kv_cache_dtypes
    return None if dtype in known else f"A KV cache in {dtype}"


def _odd_blocks(config: Any) -> str | None:
    from vllm.v1.attention.backends.registry import AttentionBackendEnum

    cache = config.cache_config
    if not cache.user_specified_block_size:
        return None
    [allowed] = AttentionBackendEnum.CUSTOM.get_class().get_supported_kernel_block_sizes()
    base, size = getattr(allowed, "base", allowed), cache.block_size
    return f"--block-size {size}, which is no multiple of {base}," if size % base else None


def _scattered_experts(config: Any) -> str | None:
    model, engines = config.model_config, config.parallel_config.data_parallel_size
    scattered = model is not None and model.is_moe and engines > 1
    return f"{model.architectures[0]} with --data-parallel-size {engines}" if scattered else None


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
        _sparse_attention,
        "Its sparse attention chooses tokens by an index whose kernels vLLM has compiled for CUDA"
        " only.",
        _SERVED,
        "model",
    ),
    Refusal(
        _latent_attention,
        "Its multi-head latent attention (MLA) needs a cache of latents and kernels for it.",
        "VLLM_MLA_DISABLE=1 serves it with plain attention and a larger cache.",
        "model",
    ),
    Refusal(
        _other_attention,
        "Its own stands in vLLM's slot CUSTOM.",
        "--attention-backend CUSTOM, or none.",
        "attention_backend",
    ),
    Refusal(
        _quantised_cache,
        "Its attention keeps keys and values as they are.",
        "--kv-cache-dtype auto.",
        "kv_cache_dtype",
    ),
    Refusal(
        _odd_blocks,
        "Its attention reads the KV cache in blocks of so many tokens.",
        "Leave --block-size away.",
        "block_size",
    ),
    Refusal(
        _scattered_experts,
        "vLLM spreads its experts over all engines, which would have to exchange their tokens.",
        "--data-parallel-size 1; --tensor-parallel-size and --pipeline-parallel-size serve it.",
        "data_parallel_size",
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


def refuse_quantisation(method: str) -> None:
    """Refuse a method of vLLM's own; a plugin brings its kernels along, torchao computes in torch.

    Raises:
        InvalidValue: names it.
    """
    from typing import get_args

    from vllm.model_executor.layers.quantization import QuantizationMethods

    if method in {*get_args(QuantizationMethods)} - {"torchao"}:
        raise InvalidValue(
            f"Weights quantised by {method} are not served on Jumar's platform. vLLM has products"
            " of such weights in Triton and in compiled CUDA only.",
            hint="The same model in float16, bfloat16 or float32.",
            param="quantization",
        )

"""The attention backend in vLLM's CUSTOM slot is that of the implementation that was decided on."""

from __future__ import annotations

from jumar.vllm.operators.process import Process


def register(here: Process) -> None:
    """Put its class path there; vLLM looks it up when a layer of attention is built.

    Vision encoders, whose attention has no backend, follow the same decision.
    """
    from vllm.model_executor.custom_op import op_registry_oot
    from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    from jumar.vllm.attention.vision import vision_attention

    path = here.hold("attention_backend")()
    register_backend(AttentionBackendEnum.CUSTOM, path)
    op_registry_oot[MMEncoderAttention.__name__] = vision_attention(path)

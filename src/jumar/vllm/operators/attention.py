"""The attention backend in vLLM's CUSTOM slot is that of the implementation that was decided on."""

from __future__ import annotations

from jumar.vllm.operators.process import Process


def register(here: Process) -> None:
    """Put its class path there; vLLM looks it up when a layer of attention is built."""
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend

    register_backend(AttentionBackendEnum.CUSTOM, here.hold("attention_backend")())

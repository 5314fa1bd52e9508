"""Language models that vLLM serves: Jumar brings their weights, and says who runs them."""

from __future__ import annotations

from jumar.runtime.families.vllm.family import VLLM

__all__ = ["VLLM"]

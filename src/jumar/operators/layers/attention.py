"""Which attention computes: a choice by class path, as vLLM's platforms make it."""

from __future__ import annotations

from jumar.operators.layers.base import LayerOperator


def attention_backend(use_mla: bool = False, use_sparse: bool = False) -> str:
    """The class path of the attention backend, for plain, latent (MLA) or sparse attention.

    Raises:
        OperatorUnavailable: the provider has none of that kind.
    """
    raise NotImplementedError


OPERATORS = (LayerOperator(attention_backend),)

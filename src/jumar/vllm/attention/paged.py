"""Paged attention in plain torch, for every device: what vLLM's CUSTOM slot holds by default.

A step costs each layer a handful of torch calls, however many sequences it has: one to write the
new keys and values, and per batch of like lengths (`batches`) one to gather its blocks, one or two
to attend, one to put the result down.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.v1.attention.backend import (
    AttentionBackend,
    AttentionImpl,
    AttentionType,
    MultipleOf,
)

from jumar.vllm.attention.formula import Formula, rows_of
from jumar.vllm.attention.metadata import KVRows, PagedBuilder, PagedMetadata, refusal

ENCODERS = (AttentionType.ENCODER, AttentionType.ENCODER_ONLY)


class TorchPagedBackend(AttentionBackend):
    """See the module; what vLLM asks a backend before it makes anything."""

    accept_output_buffer = True
    forward_includes_kv_cache_update = True
    supported_dtypes: ClassVar[list[torch.dtype]] = [
        torch.float16,
        torch.bfloat16,
        torch.float32,
    ]
    supported_kv_cache_dtypes: ClassVar[list[str]] = ["auto", "float16", "bfloat16"]

    @staticmethod
    def get_name() -> str:
        """vLLM looks the name up in its list of backends: that of the slot."""
        return "CUSTOM"

    @staticmethod
    def get_impl_cls() -> type[TorchPagedImpl]:
        return TorchPagedImpl

    @staticmethod
    def get_builder_cls() -> type[PagedBuilder]:
        return PagedBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(spec: Any = None) -> list[int | MultipleOf]:
        """Any multiple of 16; from 0.33 on vLLM gives the specification of the cache."""
        return [MultipleOf(16)]

    @staticmethod
    def get_kv_cache_shape(
        num_blocks: int,
        block_size: int,
        num_kv_heads: int,
        head_size: int,
        cache_dtype_str: str = "auto",
    ) -> tuple[int, ...]:
        """Asked for until 0.32; later ones have this shape for all backends."""
        return num_blocks, num_kv_heads, block_size, 2 * head_size

    @classmethod
    def get_required_kv_cache_layout(cls) -> str:
        """Heads before tokens in memory, as the shape says."""
        return "HND"

    @classmethod
    def supported_kv_cache_layouts(cls) -> tuple[Any, ...]:
        """The same in the terms of 0.33."""
        from vllm.v1.kv_cache_interface import KVCacheLayout

        return (KVCacheLayout.LBHNC,)

    @classmethod
    def supports_attn_type(cls, attn_type: str) -> bool:
        return attn_type in list(AttentionType)

    @classmethod
    def supports_non_causal(cls) -> bool:
        return True

    @classmethod
    def supports_sink(cls) -> bool:
        return True

    @classmethod
    def supports_sliding_window(cls) -> bool:
        """Asked for from 0.33 on."""
        return True


class TorchPagedImpl(AttentionImpl[PagedMetadata]):
    """One layer."""

    def __init__(
        self,
        num_heads: int,
        head_size: int,
        scale: float,
        num_kv_heads: int | None = None,
        alibi_slopes: list[float] | None = None,
        sliding_window: int | None = None,
        kv_cache_dtype: str = "auto",
        logits_soft_cap: float | None = None,
        attn_type: str = AttentionType.DECODER,
        kv_sharing_target_layer_name: str | None = None,
        sinks: Tensor | None = None,
    ) -> None:
        if kv_cache_dtype not in TorchPagedBackend.supported_kv_cache_dtypes:
            raise refusal(f"a KV cache in {kv_cache_dtype}")
        self.num_heads, self.head_size, self.scale = num_heads, head_size, float(scale)
        self.num_kv_heads = num_kv_heads or num_heads
        self.sliding_window, self.kv_cache_dtype = sliding_window, kv_cache_dtype
        self.attn_type = attn_type
        self.kv_sharing_target_layer_name = kv_sharing_target_layer_name
        self.formula = Formula(
            heads=num_heads,
            kv_heads=self.num_kv_heads,
            scale=self.scale,
            window=sliding_window,
            slopes=None if alibi_slopes is None else torch.tensor(alibi_slopes),
            cap=logits_soft_cap or None,
            sinks=sinks,
        )

    def forward(
        self,
        layer: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        kv_cache: Tensor,
        attn_metadata: PagedMetadata | None,
        output: Tensor,
        output_scale: Tensor | None = None,
        output_block_scale: Tensor | None = None,
    ) -> Tensor:
        """Write the new keys and values, then attend.

        Args:
            query: (tokens, heads, head size); `output` likewise.
            key: (tokens, kv heads, head size), `value` likewise; None where they are in the cache.
            kv_cache: (blocks, kv heads, block size, 2 * head size).
            attn_metadata: None in a profile run, which computes nothing.
        """
        if attn_metadata is None:
            return output.fill_(0)
        if output_scale is not None or output_block_scale is not None:
            raise refusal("a quantised output")
        if self.attn_type in ENCODERS:
            self._encode(query, key, value, attn_metadata, output)
            return output
        if self.kv_sharing_target_layer_name is None and key is not None:
            self._write(key, value, kv_cache, attn_metadata.new)
        for one in attn_metadata.gatherings:
            keys, values = one.bring(kv_cache)
            if keys.dtype != query.dtype:
                keys, values = keys.to(query.dtype), values.to(query.dtype)
            self.formula(one.batch, query, keys, values, attn_metadata.lengths.causal, output)
        return output

    def _write(self, key: Tensor, value: Tensor, kv_cache: Tensor, new: KVRows) -> None:
        """Put keys and values of the step where the block table will find them."""
        if len(key) != new.count:
            key, value = key[: new.count], value[: new.count]
        packed = torch.cat((key, value), -1)
        if new.tokens is not None:
            packed = packed.index_select(0, new.tokens)
        if packed.dtype != kv_cache.dtype:
            packed = packed.to(kv_cache.dtype)
        size = packed.shape[-1]
        if new.begun is not None:
            kv_cache.view(-1, kv_cache.shape[2] * size).index_fill_(0, new.begun, 0)
        kv_cache.view(-1, size).index_copy_(0, new.slots, packed.view(-1, size))

    def _encode(
        self, query: Tensor, key: Tensor, value: Tensor, step: PagedMetadata, output: Tensor
    ) -> None:
        """Keys and values are the step's own tokens: nothing is cached."""
        lengths = step.lengths
        for batch in lengths.batches:
            own = batch.key_tokens
            keys, values = (
                rows_of(one, own).unflatten(0, (batch.n, batch.k)).transpose(1, 2)
                for one in (key, value)
            )
            self.formula(batch, query, keys, values, lengths.causal, output)

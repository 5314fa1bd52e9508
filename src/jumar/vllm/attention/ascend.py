"""Attention by torch_npu's fused kernels: one call for all sequences of a step.

Called as the recorded schemas of torch_npu 2.13 say. What the kernel does not take goes the way of
plain torch on the same device, layer by layer; it is logged once, with the reason.

vLLM gives each layer (blocks, kv heads, block size, 2 * head size); the kernels want keys and
values apart, each (blocks, block size, kv heads, head size). Nobody but the layer looks into its
memory, so its first half holds the keys here and its second half the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from vllm.logger import init_logger
from vllm.v1.attention.backend import CommonAttentionMetadata, MultipleOf

from jumar.vllm.attention.metadata import KVRows, PagedBuilder, PagedMetadata, refusal
from jumar.vllm.attention.paged import ENCODERS, TorchPagedBackend, TorchPagedImpl
from jumar.vllm.operators.process import note

logger = init_logger("vllm.jumar")  # below vLLM's own: its level and format

BLOCK = 128
"""aclnnFusedInferAttentionScoreV3 refuses blocks that are no multiple of it: error 561002."""
HEAD_SIZES = (64, 128, 192)
"""What the fused kernel takes in the layout TND."""
MASK = 2048
"""Rows and columns of the mask, whatever the lengths are: sparse modes 2 to 4 read a template."""
RIGHT_DOWN = 3
"""sparse_mode: causal, the last query sees the last key."""
EVERYTHING = 0
"""sparse_mode: no mask."""


def unfit(head_size: int, dtype: torch.dtype) -> str | None:
    """Why the fused kernel does not take such heads; None where it does."""
    if head_size not in HEAD_SIZES:
        return f"head size {head_size} (it takes {', '.join(map(str, HEAD_SIZES))})"
    if dtype not in (torch.float16, torch.bfloat16):
        return f"{str(dtype).removeprefix('torch.')} (it takes float16 and bfloat16)"
    return None


class AscendBackend(TorchPagedBackend):
    """See the module."""

    @staticmethod
    def get_impl_cls() -> type[AscendImpl]:
        return AscendImpl

    @staticmethod
    def get_builder_cls() -> type[AscendBuilder]:
        return AscendBuilder

    @staticmethod
    def get_supported_kernel_block_sizes(spec: Any = None) -> list[int | MultipleOf]:
        return [BLOCK]

    @classmethod
    def supports_kv_connector(cls) -> bool:
        """What moves blocks between machines would have to know the halves of a layer's memory."""
        return False


@dataclass
class AscendMetadata(PagedMetadata):
    """One step, as the kernels want it: lengths on the host, the table and slots on the device."""

    mask: Tensor | None
    """(2048, 2048) int8, 1 where a key is not seen; None where all are."""

    @cached_property
    def ends(self) -> list[int]:
        """The tokens up to each sequence's last one."""
        return self.lengths.starts[1:]

    @cached_property
    def written(self) -> KVRows:
        """The slots of the new tokens, int32; the kernel takes no -1."""
        slots, tokens = self.slot_mapping, None
        if slots.numel() and int(slots.min()) < 0:
            tokens = (slots >= 0).nonzero().flatten()
            slots = slots[tokens]
        return KVRows(slots.int().contiguous(), tokens, len(self.slot_mapping))


class AscendBuilder(PagedBuilder):
    """Adds the mask, which is made once."""

    @cached_property
    def _template(self) -> Tensor:
        ones = torch.ones(MASK, MASK, dtype=torch.int8)
        return ones.triu(1).to(self.device)

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> AscendMetadata:
        step = super().build(common_prefix_len, common_attn_metadata, fast_build)
        mask = self._template if step.lengths.causal else None
        return AscendMetadata(step.lengths, step.block_table.int(), step.slot_mapping, mask)


class AscendImpl(TorchPagedImpl):
    """One layer: the fused kernel, or plain torch where `plain` says why."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.plain = self._unfit(torch.get_default_dtype())
        if self.plain is not None:
            logger.info_once(
                "Attention in plain torch, not by npu_fused_infer_attention_score: %s.", self.plain
            )
            note("attention_backend", f"in plain torch: {self.plain}")
        if self.kv_sharing_target_layer_name is not None:
            self._agree_with(self.kv_sharing_target_layer_name)
        self._attend = torch.ops.npu.npu_fused_infer_attention_score
        self._scatter = torch.ops.npu.npu_scatter_pa_kv_cache

    def _unfit(self, dtype: torch.dtype) -> str | None:
        """Why this layer is not the kernel's; None where it is.

        With one query per sequence the kernel pays no heed to the tokens before (`pre_tokens`), so
        windows are not its.
        """
        formula = self.formula
        found = {
            "a sliding window": formula.window is not None,
            "ALiBi": formula.slopes is not None,
            "a soft cap of scores": formula.cap is not None,
            "sinks": formula.sinks is not None,
            f"a KV cache in {self.kv_cache_dtype}": self.kv_cache_dtype != "auto",
        }
        return next((why for why, is_so in found.items() if is_so), unfit(self.head_size, dtype))

    def _agree_with(self, name: str) -> None:
        """A layer that shares a cache has to read it as it was written.

        Raises:
            OperatorUnavailable: the other layer is computed the other way.
        """
        from vllm.config import get_current_vllm_config

        layers = get_current_vllm_config().compilation_config.static_forward_context
        if (layers[name].impl.plain is None) != (self.plain is None):
            raise refusal(f"a layer that shares the cache of {name}, which is computed otherwise")

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
        """As `TorchPagedImpl.forward`."""
        if self.plain is not None or not isinstance(attn_metadata, AscendMetadata):
            return super().forward(
                layer,
                query,
                key,
                value,
                kv_cache,
                attn_metadata,
                output,
                output_scale,
                output_block_scale,
            )
        if output_scale is not None or output_block_scale is not None:
            raise refusal("a quantised output")
        step = attn_metadata
        if self.attn_type in ENCODERS:
            count = step.ends[-1]
            rows = (key[:count].contiguous(), value[:count].contiguous())
            self._fused(step, query, *rows, step.ends, {}, output)
            return output
        block = step.lengths.builder.block
        keys, values = kv_cache.view(2, -1, block, self.num_kv_heads, self.head_size)
        if self.kv_sharing_target_layer_name is None and key is not None:
            self._put(key, value, keys, values, step.written)
        paged = {"block_table": step.block_table, "block_size": block}
        flat = (keys.flatten(2), values.flatten(2))
        self._fused(step, query, *flat, step.lengths.keys, paged, output)
        return output

    def _put(self, key: Tensor, value: Tensor, keys: Tensor, values: Tensor, new: KVRows) -> None:
        """Write the new tokens, (tokens, kv heads, head size), to their slots."""
        rows = [one[: new.count] for one in (key, value)]
        if new.tokens is not None:
            rows = [one.index_select(0, new.tokens) for one in rows]
        self._scatter(
            rows[0].contiguous(),
            rows[1].contiguous(),
            keys,
            values,
            new.slots,
            cache_mode="Norm",
        )

    def _fused(
        self,
        step: AscendMetadata,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        lengths: list[int],
        paged: dict[str, Any],
        output: Tensor,
    ) -> None:
        """Keys and values are blocks, with their table, or the step's own tokens.

        `lengths` are the keys of each sequence where they are in blocks, else the tokens up to each
        one's last, as the ends of the queries.
        """
        count = step.ends[-1]
        found, _ = self._attend(
            query[:count].contiguous(),
            keys,
            values,
            atten_mask=step.mask,
            actual_seq_lengths=step.ends,
            actual_seq_lengths_kv=lengths,
            num_heads=self.num_heads,
            num_key_value_heads=self.num_kv_heads,
            scale=self.scale,
            input_layout="TND",
            sparse_mode=EVERYTHING if step.mask is None else RIGHT_DOWN,
            **paged,
        )
        output[:count].copy_(found)

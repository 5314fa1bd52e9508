"""Attention of vision encoders: images of any sizes side by side, each within itself, no cache.

vLLM's own way takes one image, or window, after another; here those of like sizes are one batch.
On an NPU all of them are one call of the fused kernel. A head size that it refuses is padded with
zeros to the next that it takes, which changes no score; what it refuses otherwise goes the way of
plain torch. Both are logged once.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from vllm.logger import init_logger
from vllm.model_executor.layers.attention.mm_encoder_attention import MMEncoderAttention

from jumar.vllm.attention.ascend import EVERYTHING, HEAD_SIZES, unfit
from jumar.vllm.attention.batches import Batch, grouped, pieces
from jumar.vllm.attention.formula import Formula, rows_of
from jumar.vllm.attention.metadata import workspace
from jumar.vllm.operators.process import note

logger = init_logger("vllm.jumar")


class TorchVisionAttention(MMEncoderAttention):
    """In plain torch."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.formula = Formula(self.num_heads, self.num_kv_heads, self.scale)

    def forward_oot(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        cu_seqlens: Tensor | None = None,
        max_seqlen: Tensor | None = None,
        sequence_lengths: Tensor | None = None,
    ) -> Tensor:
        """(b, s, heads * head size) or (b, s, heads, head size), and out likewise.

        `cu_seqlens` (images + 1) are the first tokens of each image in every one of the b rows, and
        s; None where a row is one image.
        """
        rows, length = query.shape[:2]
        within = [0, length] if cu_seqlens is None else cu_seqlens.tolist()
        starts = [row * length + at for row in range(rows) for at in within[:-1]]
        tokens = query.reshape(rows * length, self.num_heads, self.head_size)
        keys, values = (
            one.reshape(rows * length, self.num_kv_heads, self.head_size) for one in (key, value)
        )
        found = self.attend(tokens, keys, values, (*starts, rows * length))
        return found.reshape(query.shape)

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, starts: tuple[int, ...]
    ) -> Tensor:
        """Tokens (t, heads, head size) of images that begin at `starts`, the last of them t."""
        output = torch.empty_like(query, memory_format=torch.contiguous_format)
        token_bytes = 2 * keys[0].numel() * keys.element_size()
        for batch in _batches(starts, token_bytes, query.device):
            k, v = (
                rows_of(one, batch.key_tokens).unflatten(0, (batch.n, batch.k)).transpose(1, 2)
                for one in (keys, values)
            )
            self.formula(batch, query, k, v, False, output)
        return output


class AscendVisionAttention(TorchVisionAttention):
    """By the fused kernel."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.padded = next((size for size in HEAD_SIZES if size >= self.head_size), self.head_size)
        self.plain = unfit(self.padded, self.dtype)
        fused = "npu_fused_infer_attention_score"
        if self.plain is not None:
            logger.info_once("Vision attention in plain torch, not by %s: %s.", fused, self.plain)
            note("attention_backend", f"of pictures in plain torch: {self.plain}")
        elif self.padded != self.head_size:
            logger.info_once(
                "Vision attention: heads of %d are padded to %d for %s.",
                self.head_size,
                self.padded,
                fused,
            )
        self._attend = torch.ops.npu.npu_fused_infer_attention_score

    def attend(
        self, query: Tensor, keys: Tensor, values: Tensor, starts: tuple[int, ...]
    ) -> Tensor:
        """As that of `TorchVisionAttention`."""
        if self.plain is not None:
            return super().attend(query, keys, values, starts)
        more = self.padded - self.head_size
        rows = [pad(one, (0, more)) if more else one for one in (query, keys, values)]
        found, _ = self._attend(
            *(one.contiguous() for one in rows),
            actual_seq_lengths=starts[1:],
            actual_seq_lengths_kv=starts[1:],
            num_heads=self.num_heads,
            num_key_value_heads=self.num_kv_heads,
            scale=self.scale,
            input_layout="TND",
            sparse_mode=EVERYTHING,
        )
        return found[..., : self.head_size]


@lru_cache(maxsize=8)
def _batches(starts: tuple[int, ...], token_bytes: int, device: torch.device) -> list[Batch]:
    """The same for all layers of an encoder."""
    lengths = [stop - start for start, stop in pairwise(starts)]
    found = pieces(starts, lengths, False, None, 1)
    return [Batch(group, device) for group in grouped(found, token_bytes, workspace(device))]


def vision_attention(backend: str) -> type[MMEncoderAttention]:
    """The class that goes with the class path of a backend for text."""
    return AscendVisionAttention if backend.endswith(".AscendBackend") else TorchVisionAttention

"""What a step costs once, whatever the number of layers: metadata of the paged attention.

The KV cache of a layer is (blocks, kv heads, block size, 2 * head size), keys before values. Seen
as (blocks * kv heads) rows, one `index_select` brings the blocks of many sequences into
(n, kv heads, keys, 2 * head size): no copy turns them afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from vllm.v1.attention.backend import AttentionMetadataBuilder, CommonAttentionMetadata

from jumar.contracts.errors import OperatorUnavailable
from jumar.vllm.attention.batches import Batch, grouped, pieces

CORE_CACHE, DEVICE_CACHE = 4 << 20, 64 << 20
"""Bytes of keys and values that are gathered at once: about what stays in the cache of a CPU's
core, or of an accelerator."""


def workspace(device: torch.device) -> int:
    """Bytes of keys and values that a batch of several sequences has at most."""
    return CORE_CACHE if device.type == "cpu" else DEVICE_CACHE


@dataclass
class KVRows:
    """Where a step's new keys and values go."""

    slots: Tensor
    """(rows,) among (blocks * kv heads * block size), int64."""
    tokens: Tensor | None
    """The tokens that have a slot; None where all have one."""
    count: int
    begun: Tensor | None = None
    """Rows of the cache seen as (blocks * kv heads, ...) that this step begins and does not fill:
    what another sequence left there, maybe a NaN, has to go."""


@dataclass(eq=False)
class Gathering:
    """The blocks of one batch, and the place in the workspace that they are brought to."""

    batch: Batch
    blocks: Tensor
    """(n * kv heads * blocks,) rows of the cache seen as (blocks * kv heads, ...), int32."""
    rows: Tensor
    """The workspace as (n * kv heads * blocks, block size * 2 * head size)."""
    keys: Tensor
    """(n, kv heads, keys, head size) of it, and `values` likewise."""
    values: Tensor

    def bring(self, cache: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (n, kv heads, keys, head size) from a layer's cache."""
        torch.index_select(cache.view(-1, self.rows.shape[1]), 0, self.blocks, out=self.rows)
        return self.keys, self.values


@dataclass(eq=False)
class Lengths:
    """What all groups of layers with the same kind of blocks share of a step."""

    starts: list[int]
    """(sequences + 1) first tokens, and one past the last."""
    keys: list[int]
    """(sequences) keys of each, the new ones with them."""
    causal: bool
    builder: PagedBuilder

    @cached_property
    def batches(self) -> list[Batch]:
        """Masks are kept in them, so that they too are made once."""
        builder = self.builder
        found = pieces(self.starts, self.keys, self.causal, builder.window, builder.block)
        layers = max(1, len(builder.layer_names))
        groups = grouped(found, builder.token_bytes, workspace(builder.device), layers)
        return [Batch(group, builder.device) for group in groups]


@dataclass
class PagedMetadata:
    """One step, for all layers that share its blocks."""

    lengths: Lengths
    block_table: Tensor
    """(sequences, blocks) int32."""
    slot_mapping: Tensor
    """(tokens,) int64, -1 where nothing is to be written."""

    @cached_property
    def gatherings(self) -> list[Gathering]:
        """Made when a layer first asks: layers of encoders never do."""
        lengths = self.lengths
        return [lengths.builder.gathering(one, self.block_table) for one in lengths.batches]

    @cached_property
    def new(self) -> KVRows:
        """Made when a layer first writes: vLLM replaces `slot_mapping` for cross-attention."""
        return self.lengths.builder.kv_rows(self.slot_mapping)


class PagedBuilder(AttentionMetadataBuilder[PagedMetadata]):
    """Lays a step out, once for all layers of a group."""

    supports_update_block_table = True

    def __init__(
        self, kv_cache_spec: Any, layer_names: list[str], vllm_config: Any, device: torch.device
    ) -> None:
        super().__init__(kv_cache_spec, layer_names, vllm_config, device)
        spec = kv_cache_spec
        self.heads, self.size, self.block = spec.num_kv_heads, spec.head_size, spec.block_size
        if getattr(spec, "head_size_v", None) not in (None, self.size):
            raise refusal(f"values of another size ({spec.head_size_v}) than keys")
        self.window: int | None = getattr(spec, "sliding_window", None)
        self.token_bytes = 2 * self.heads * self.size * spec.dtype.itemsize
        self._heads = torch.arange(self.heads, dtype=torch.int32, device=device)[:, None]
        self._head_rows = self._heads[:, 0].long() * self.block
        self._workspace = torch.empty(0, dtype=spec.dtype, device=device)

    def build(
        self,
        common_prefix_len: int,
        common_attn_metadata: CommonAttentionMetadata,
        fast_build: bool = False,
    ) -> PagedMetadata:
        """Lengths are read from the host where they are; one small copy from a device else."""
        common = common_attn_metadata
        if isinstance(common.causal, Tensor) or getattr(common, "mm_req_doc_ranges", None):
            raise refusal("attention that is causal for a part of the tokens")
        count = common.num_reqs
        return PagedMetadata(
            Lengths(
                common.query_start_loc_cpu[: count + 1].tolist(),
                common.seq_lens[:count].tolist(),
                common.causal,
                self,
            ),
            common.block_table_tensor[:count],
            common.slot_mapping,
        )

    def update_block_table(
        self, metadata: PagedMetadata, blk_table: Tensor, slot_mapping: Tensor
    ) -> PagedMetadata:
        """The same step for another group of layers: other blocks, the same lengths and masks."""
        rows = len(metadata.block_table)
        return replace(metadata, block_table=blk_table[:rows], slot_mapping=slot_mapping)

    def kv_rows(self, slot_mapping: Tensor) -> KVRows:
        """The rows of every head of the slots that are given."""
        slots, tokens = slot_mapping, None
        if slots.numel() and int(slots.min()) < 0:
            tokens = (slots >= 0).nonzero().flatten()
            slots = slots[tokens]
        # (block * heads + head) * block size + offset, with slot = block * block size + offset
        first = slots.add(slots // self.block, alpha=self.block * (self.heads - 1))
        rows = (first[:, None] + self._head_rows).flatten()
        return KVRows(rows, tokens, len(slot_mapping), self._begun(slots))

    def _begun(self, slots: Tensor) -> Tensor | None:
        """Of the blocks whose first slot is written and whose last one is not; None if none."""
        at = (slots % self.block == 0).nonzero().flatten()
        if not len(at):
            return None
        first, last = slots[at], slots[(at + self.block - 1).clamp(max=len(slots) - 1)]
        blocks = first[last != first + self.block - 1] // self.block
        return (blocks[:, None] * self.heads + self._heads[:, 0]).flatten() if len(blocks) else None

    def gathering(self, batch: Batch, table: Tensor) -> Gathering:
        """Which blocks a batch reads, and where they go."""
        block, heads, size = self.block, self.heads, self.size
        count = -(-batch.k // block)
        blocks = self._ids(batch, count, table)[:, None] * heads + self._heads
        space = self._take(batch.n * heads * count * block * 2 * size)
        paired = space.view(batch.n, heads, count * block, 2 * size)[:, :, : batch.k]
        return Gathering(
            batch=batch,
            blocks=blocks.flatten(),
            rows=space.view(-1, block * 2 * size),
            keys=paired[..., :size],
            values=paired[..., size:],
        )

    def _ids(self, batch: Batch, count: int, table: Tensor) -> Tensor:
        """Of the blocks of each sequence (n, count).

        Past its own last block a sequence repeats its first one: it holds numbers of its own.
        """
        rows = [one.row for one in batch.pieces]
        begins = [one.begin // self.block for one in batch.pieces]
        if rows == list(range(rows[0], rows[0] + batch.n)) and len(set(begins)) == 1:
            ids = table[rows[0] : rows[0] + batch.n, begins[0] : begins[0] + count]
        else:
            row, begin = torch.tensor([rows, begins], device=table.device).unbind()
            # Tables are as wide as the longest sequence may be: the last column is there.
            column = (begin[:, None] + self._steps(count)).clamp(max=table.shape[1] - 1)
            ids = table[row[:, None], column]
        counts = [-(-(one.end - one.begin) // self.block) for one in batch.pieces]
        if min(counts) < count:
            own = self._steps(count) < torch.tensor(counts, device=table.device)[:, None]
            ids = torch.where(own, ids, ids[:, :1])
        return ids

    def _steps(self, count: int) -> Tensor:
        return torch.arange(count, device=self.device)

    def _take(self, elements: int) -> Tensor:
        """The start of the workspace: batches take turns, and every layer begins anew."""
        if self._workspace.numel() < elements:
            self._workspace = self._workspace.new_empty(elements)
        return self._workspace[:elements]


def refusal(what: str) -> OperatorUnavailable:
    """The error that names what is asked for and not computed here."""
    return OperatorUnavailable(
        f"The paged attention in plain torch does not compute {what}.", param="attention_backend"
    )

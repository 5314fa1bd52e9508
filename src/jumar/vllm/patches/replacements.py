"""What the manifest puts in place of names of vLLM and torch. Shapes as vLLM has them."""

from __future__ import annotations

from typing import Any

import torch

PAD_SLOT = -1
"""vLLM's PAD_SLOT_ID: a token whose key and value are not kept."""


def compute_slot_mapping(
    self: Any, num_reqs: int, query_start_loc: torch.Tensor, positions: torch.Tensor
) -> None:
    """The slot of each scheduled token: `block * block_size + offset in the block`.

    `query_start_loc`: [num_reqs + 1] int32, where each request's tokens begin; `positions`:
    [tokens] int64 within the request; written is `self.slot_mapping.gpu`, int64, padded behind.
    """
    tokens = positions.shape[0]
    ends = query_start_loc[1 : num_reqs + 1]
    request = torch.bucketize(torch.arange(tokens, device=ends.device), ends, right=True)
    block = torch.div(positions, self.block_size, rounding_mode="floor")
    slots = self.block_table.gpu[request, block] * self.block_size + positions % self.block_size
    self.slot_mapping.gpu[:tokens] = slots
    self.slot_mapping.gpu[tokens:].fill_(PAD_SLOT)


def nothing(*args: Any, **kwargs: Any) -> None:
    """Where there is no accelerator there is nothing to wait for and no cache to empty."""

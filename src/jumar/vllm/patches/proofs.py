"""What each patch has to do, tried on the patched name itself when it is applied."""

from __future__ import annotations

from types import SimpleNamespace


def empty_cache_returns() -> None:
    """It does not raise."""
    import torch

    assert torch.accelerator.empty_cache() is None


def empty_host_cache_returns() -> None:
    """It does not raise."""
    import torch

    assert torch.accelerator.empty_host_cache() is None


def synchronize_returns() -> None:
    """It does not raise."""
    import torch

    assert torch.accelerator.synchronize() is None


def slots_are_those_of_the_blocks() -> None:
    """Two requests, whose tokens 3 and 0 to 2 are scheduled, in blocks of two tokens."""
    import torch
    from vllm.v1.worker import block_table

    table = SimpleNamespace(
        block_size=2,
        block_table=SimpleNamespace(gpu=torch.tensor([[7, 4], [5, 9]], dtype=torch.int32)),
        slot_mapping=SimpleNamespace(gpu=torch.full((6,), 99)),
        max_num_batched_tokens=6,
        dcp_world_size=1,
        dcp_rank=0,
        cp_kv_cache_interleave_size=1,
    )
    if modes := getattr(block_table, "SlotMappingMode", None):  # vLLM 0.33
        table.slot_mapping_mode = modes.TOKEN_TO_KV_SLOT
    begins = torch.tensor([0, 1, 4], dtype=torch.int32)
    positions = torch.tensor([3, 0, 1, 2])
    block_table.BlockTable.compute_slot_mapping(table, 2, begins, positions)
    slots = table.slot_mapping.gpu.tolist()
    assert slots == [9, 10, 11, 18, -1, -1], f"slots {slots}"

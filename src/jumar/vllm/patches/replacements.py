"""What the manifest puts in place of names of vLLM and torch. Shapes as vLLM has them."""

from __future__ import annotations

from typing import Any

import torch
from vllm.utils.async_utils import cancel_task_threadsafe, run_in_loop
from vllm.v1.engine.exceptions import EngineDeadError
from vllm.v1.metrics.prometheus import shutdown_prometheus

PAD_SLOT = -1
"""vLLM's PAD_SLOT_ID: a token whose key and value are not kept."""


def compute_slot_mapping(
    self: Any, num_reqs: int, query_start_loc: torch.Tensor, positions: torch.Tensor
) -> None:
    """The method of vLLM 0.24's block table."""
    table, slots = self.block_table.gpu, self.slot_mapping.gpu
    _map(query_start_loc[: num_reqs + 1], positions, table, slots, self.block_size)


def slot_mapping_kernel(
    num_tokens: int,
    max_num_tokens: int,
    query_start_loc_ptr: torch.Tensor,
    positions_ptr: torch.Tensor,
    block_table_ptr: torch.Tensor,
    block_table_stride: int,
    slot_mapping_ptr: torch.Tensor,
    KV_CACHE_BLOCK_SIZE: int,  # noqa: N803  (the kernel's own names)
    TOTAL_CP_WORLD_SIZE: int = 1,  # noqa: N803
    TOTAL_CP_RANK: int = 0,  # noqa: N803
    CP_KV_CACHE_INTERLEAVE_SIZE: int = 1,  # noqa: N803
    PAD_ID: int = PAD_SLOT,  # noqa: N803
    BLOCK_SIZE: int = 1024,  # noqa: N803
) -> None:
    """The kernel of vLLM 0.33's block table, whose parameters have these names."""
    positions = positions_ptr[:num_tokens]
    _map(query_start_loc_ptr, positions, block_table_ptr, slot_mapping_ptr, KV_CACHE_BLOCK_SIZE)


def _map(
    begins: torch.Tensor,
    positions: torch.Tensor,
    table: torch.Tensor,
    slots: torch.Tensor,
    block_size: int,
) -> None:
    """Write the slot of each scheduled token: `block * block_size + offset in the block`.

    `begins`: [requests + 1] int32, where the tokens of each request begin; `positions`: [tokens]
    int64 within its request; `table`: [rows, blocks] int32; `slots`: int64, padded behind.
    """
    tokens = positions.shape[0]
    request = torch.bucketize(torch.arange(tokens, device=begins.device), begins[1:], right=True)
    block = torch.div(positions, block_size, rounding_mode="floor")
    slots[:tokens] = table[request, block] * block_size + positions % block_size
    slots[tokens:].fill_(PAD_SLOT)


def get_dummy_processor_inputs(self: Any, seq_len: int, mm_counts: Any, mm_options: Any) -> Any:
    """The method of what builds the inputs of a profile run in vLLM 0.24."""
    from vllm.multimodal.processing.inputs import ProcessorInputs

    tokenizer, text = self.info.ctx.tokenizer, self.get_dummy_text(mm_counts)
    data = self.get_dummy_mm_data(seq_len, mm_counts, mm_options)
    return ProcessorInputs(
        prompt=[] if tokenizer is None else tokenizer.encode(text, truncation=False),
        mm_data_items=self.info.parse_mm_data(data, validate=False),
        tokenization_kwargs={"truncation": False},
    )


def shutdown(self: Any, timeout: float | None = None) -> None:
    """The method of vLLM's asynchronous engine; at its end whoever still waits is told.

    It is called once more when the interpreter ends, and nothing can be imported any longer.
    """
    shutdown_prometheus()
    if renderer := getattr(self, "renderer", None):
        renderer.shutdown()
    if engine_core := getattr(self, "engine_core", None):
        engine_core.shutdown(timeout=timeout)
    if (handler := getattr(self, "output_handler", None)) is not None:
        cancel_task_threadsafe(handler)
        ended = EngineDeadError()
        ended.args = ("The server is stopping.",)
        run_in_loop(handler.get_loop(), self.output_processor.propagate_error, ended)


def nothing(*args: Any, **kwargs: Any) -> None:
    """Where there is no accelerator there is nothing to wait for and no cache to empty."""

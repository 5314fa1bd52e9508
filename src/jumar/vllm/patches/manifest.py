"""All that Jumar changes in other people's code when vLLM runs on it: one row each."""

from __future__ import annotations

from jumar.vllm.patches.base import Kernel, Patch

_HERE = "jumar.vllm.patches"


def _no_accelerator(name: str) -> Patch:
    return Patch(
        name=f"accelerator-{name.replace('_', '-')}",
        target=f"torch.accelerator:{name}",
        replacement=f"{_HERE}.replacements:nothing",
        proof=f"{_HERE}.proofs:{name}_returns",
        why="vLLM calls it when an engine ends; torch raises where there is no accelerator.",
        how="It does nothing: on the CPU nothing is queued and nothing is cached.",
        until="vLLM asks whether there is an accelerator, as it does on its own CPU platform.",
        devices=("cpu",),
        where="process",
    )


PATCHES: tuple[Patch, ...] = (
    _no_accelerator("empty_cache"),
    _no_accelerator("empty_host_cache"),
    _no_accelerator("synchronize"),
    Patch(
        name="profiled-prompt",
        target="vllm.multimodal.processing.dummy_inputs:"
        "BaseDummyInputsBuilder.get_dummy_processor_inputs",
        replacement=f"{_HERE}.replacements:get_dummy_processor_inputs",
        proof=f"{_HERE}.proofs:what_is_profiled_is_asked_in_tokens",
        why="A profile run gives the processor of a vision model a text without its pictures, which"
        " transformers refuses since 5.24.",
        how="It is asked in tokens, as all requests are: vLLM 0.33 does the same.",
        until="vLLM 0.24 is no longer supported.",
        where="process",
        parameters=("self", "seq_len", "mm_counts", "mm_options"),
        versions="<0.33",
    ),
    Patch(
        name="told-at-the-end",
        target="vllm.v1.engine.async_llm:AsyncLLM.shutdown",
        replacement=f"{_HERE}.replacements:shutdown",
        proof=f"{_HERE}.proofs:who_waits_is_told_at_the_end",
        why="A server that is stopped ends its engine and cancels what brings its outputs; requests"
        " that still run wait for them, and the server for these requests, for ever.",
        how="Then each request that still runs gets the error that the engine has ended.",
        until="vLLM tells them itself when it shuts down.",
        where="front",
        parameters=("self", "timeout"),
    ),
    Patch(
        name="slot-mapping",
        target="vllm.v1.worker.block_table:BlockTable.compute_slot_mapping",
        replacement=f"{_HERE}.replacements:compute_slot_mapping",
        proof=f"{_HERE}.proofs:slots_are_those_of_the_blocks",
        why="The only kernel of a greedy step that exists in Triton alone.",
        how="The same slots, from a bucketize and a gather in torch.",
        until="vLLM 0.24 is no longer supported: the next row takes its place.",
        parameters=("self", "num_reqs", "query_start_loc", "positions"),
        versions="<0.33",
    ),
    Kernel(
        name="slot-mapping-kernel",
        target="vllm.v1.worker.block_table:ComputeSlotMappingKernel.kernel",
        replacement=f"{_HERE}.replacements:slot_mapping_kernel",
        proof=f"{_HERE}.proofs:slots_are_those_of_the_blocks",
        why="The only kernel of a greedy step that exists in Triton alone.",
        how="Registered where vLLM has platforms register their kernels.",
        until="vLLM has this kernel in torch, for platforms without Triton.",
        parameters=(
            *("num_tokens", "max_num_tokens", "query_start_loc_ptr", "positions_ptr"),
            *("block_table_ptr", "block_table_stride", "slot_mapping_ptr"),
            *("KV_CACHE_BLOCK_SIZE", "TOTAL_CP_WORLD_SIZE", "TOTAL_CP_RANK"),
            *("CP_KV_CACHE_INTERLEAVE_SIZE", "PAD_ID", "BLOCK_SIZE"),
        ),
        versions=">=0.33",
    ),
)

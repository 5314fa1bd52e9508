"""What each patch has to do, tried on the patched name itself when it is applied."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


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


def what_is_profiled_is_asked_in_tokens() -> None:
    """A builder whose text is one token."""
    from vllm.multimodal.processing.dummy_inputs import BaseDummyInputsBuilder

    tokenizer = SimpleNamespace(encode=lambda text, truncation: [len(text)])
    builder = SimpleNamespace(
        info=SimpleNamespace(
            ctx=SimpleNamespace(tokenizer=tokenizer),
            get_tokenizer=lambda: tokenizer,
            parse_mm_data=lambda data, validate: data,
        ),
        get_dummy_text=lambda counts: "<video>" * counts["video"],
        get_dummy_mm_data=lambda *_: {"video": "a film"},
    )
    build: Any = BaseDummyInputsBuilder.get_dummy_processor_inputs
    made = build(builder, 8, {"video": 1}, {})
    assert made.prompt == [7], f"prompt {made.prompt!r}"
    assert made.mm_data_items == {"video": "a film"}, f"data {made.mm_data_items!r}"


def who_waits_is_told_at_the_end() -> None:
    """An engine whose handler of outputs is cancelled, in a loop that calls at once."""
    from vllm.v1.engine.async_llm import AsyncLLM

    told: list[Any] = []
    loop = SimpleNamespace(
        is_closed=lambda: False, call_soon_threadsafe=lambda function, *args: function(*args)
    )
    handler = SimpleNamespace(
        get_loop=lambda: loop, done=lambda: False, cancel=lambda: told.append("cancelled")
    )
    engine = SimpleNamespace(
        engine_core=SimpleNamespace(shutdown=lambda timeout: told.append(timeout)),
        output_handler=handler,
        output_processor=SimpleNamespace(propagate_error=told.append),
    )
    stop: Any = AsyncLLM.shutdown
    stop(engine, timeout=3.0)
    assert told[:2] == [3.0, "cancelled"], f"done {told}"
    assert [type(one).__name__ for one in told[2:]] == ["EngineDeadError"], f"told {told[2:]}"


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

"""The emulated NPU changes a process for good, so these specifications run apart:

JUMAR_EMULATE_NPU=2 pytest tests/emulated
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ON = bool(os.environ.get("JUMAR_EMULATE_NPU"))
HERE = Path(__file__).parent
collect_ignore = [
    one.name for one in HERE.glob("test_*.py") if not ON and one.name != "test_off.py"
]


@pytest.fixture(autouse=True)
def clean_devices():
    """Every test begins on card 0 without noise, and leaves no fault behind."""
    if not ON:
        yield
        return
    import torch

    from jumar import emulator
    from jumar.emulator.faults import acting

    assert emulator.is_active(), "torch did not activate the emulator: pip install -e . again"
    torch.npu.set_device(0)
    with emulator.noise("off"):
        yield
    torch.npu.set_device(0)
    assert not acting._faults


@pytest.fixture
def small_card():
    """Card 1 with 1 GiB of memory, emptied."""
    import gc

    import torch

    core = torch.ops.jumar_emulator
    gc.collect()
    core.empty_cache()
    before = core.stats(1)[0]
    core.set_total(1, 1 << 30)
    yield 1
    core.set_total(1, before)

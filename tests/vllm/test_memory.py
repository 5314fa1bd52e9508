"""How much memory the KV cache of a worker gets."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import InsufficientMemory
from jumar.vllm.memory import HostGauge, Memory, resident

GB = 10**9


@dataclass
class Card:
    """A device with so many bytes, of which a process needs `needs` at most."""

    free: int = 60 * GB
    total: int = 64 * GB
    needs: int = 10 * GB
    asked: list[str] = field(default_factory=list)

    def free_total(self) -> tuple[int, int]:
        return self.free, self.total

    def begin(self) -> None:
        self.asked.append("begin")

    def peak(self) -> int:
        self.asked.append("peak")
        return self.needs


def cache(named: int | None = None, share: float = 0.9) -> SimpleNamespace:
    return SimpleNamespace(kv_cache_memory_bytes=named, gpu_memory_utilization=share)


def test_named_bytes_are_taken_as_they_are_and_nothing_is_measured():
    card = Card()
    memory = Memory.of(cache(named=3 * GB), card, 1)
    assert memory.named == 3 * GB and card.asked == []


@given(st.integers(1, 60), st.integers(0, 70), st.integers(1, 4))
def test_what_is_left_and_what_is_needed_are_what_was_asked_for(share, needs, workers):
    """Nothing is kept back: what is not needed at the peak is the cache's."""
    memory = Memory.of(cache(share=share / 64), Card(), workers)
    peak = needs * GB // 4
    if peak >= memory.requested:
        with pytest.raises(InsufficientMemory, match="may take"):
            memory.left(peak)
    else:
        assert memory.left(peak) + peak == memory.requested
        assert memory.requested * workers <= 64 * GB * share / 64


@pytest.mark.parametrize("asks", [cache(named=31 * GB), cache(share=0.95)])
def test_more_than_is_free_is_refused_before_a_model_is_loaded(asks):
    with pytest.raises(InsufficientMemory, match="are free"):
        Memory.of(asks, Card(), 2)


def test_the_peak_of_this_process_is_that_of_its_resident_memory():
    gauge, size = HostGauge(), 200 * 1_000_000
    gauge.begin()
    before = gauge.peak()
    taken = b"\1" * size
    assert resident() - before > 0.9 * size
    del taken
    assert gauge.peak() - before > 0.9 * size
    gauge.begin()
    if os.access("/proc/self/clear_refs", os.W_OK):
        assert gauge.peak() - before < 0.5 * size, "begin forgets the peak before it"

"""Blocks change hands: whatever their last owner left in them, each sequence gets the formula.

What vLLM's scheduler may do between two steps, in any order: chunks that end inside a block, whole
prefixes of others, sequences that are thrown out and begin anew, drafts that are taken back, blocks
that a window has passed, sequences in any order in the batch.
"""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here")

import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from tests.vllm.attending import Engine, Features, Sequence, close

from jumar.vllm.attention.metadata import PagedBuilder
from jumar.vllm.attention.paged import TorchPagedBackend

LEFT = st.sampled_from([float("nan"), float("inf"), 1e30])
"""What an owner may leave in a block."""
COUNTS = st.integers(1, 5) | st.sampled_from([16, 32]) | st.integers(6, 70)
LONGEST = 200


class Scheduled(RuleBasedStateMachine):
    """One layer, and a scheduler that hands its blocks around."""

    @initialize(
        window=st.none() | st.integers(1, 40),
        cap=st.booleans(),
        heads=st.sampled_from([(4, 2), (3, 1), (2, 2)]),
        block=st.sampled_from([16, 32]),
    )
    def start(self, window: int | None, cap: bool, heads: tuple[int, int], block: int) -> None:
        features = Features(*heads, size=8, window=window, cap=1.5 if cap else None)
        self.engine = Engine(TorchPagedBackend, features, block=block, blocks=120)
        self.window = window
        self.running: list[int] = []

    @rule(shares=st.none() | st.integers(0, 3), whole=st.integers(0, 12))
    def join(self, shares: int | None, whole: int) -> None:
        if len(self.running) == 4:
            return
        other, tokens = None, 0
        if shares is not None and shares < len(self.running):
            other = self.sequence(shares)
            tokens = min(whole, len(other.keys) // self.engine.block) * self.engine.block
            if 0 in other.blocks[self.passed(tokens) : tokens // self.engine.block]:
                tokens = 0  # a window has passed what the new one would read
        self.running.append(self.engine.join(other, tokens))

    @rule(
        counts=st.lists(st.none() | COUNTS, min_size=4, max_size=4),
        order=st.permutations(range(4)),
        padding=st.integers(0, 3),
    )
    def step(self, counts: list[int | None], order: list[int], padding: int) -> None:
        new = {}
        for at in order:
            if at < len(self.running) and (count := counts[at]) is not None:
                known = len(self.sequence(at).keys)
                new[self.running[at]] = count if known + count <= LONGEST else 1
        if new:
            got, expected = self.engine.step(new, padding=padding)
            assert close(got, expected, torch.float32)

    @rule(at=st.integers(0, 3), left=LEFT)
    def preempt(self, at: int, left: float) -> None:
        """It begins anew, in other blocks; vLLM computes its tokens a second time."""
        if at < len(self.running):
            number = self.running.pop(at)
            one = self.engine.sequences[number]
            self.engine.sequences[number] = Sequence([], one.keys[:0], one.values[:0])
            self.give_back(one.blocks, left)

    @rule(at=st.integers(0, 3), count=st.integers(1, 5), frees=st.booleans(), left=LEFT)
    def take_back(self, at: int, count: int, frees: bool, left: float) -> None:
        """The last tokens were drafts that nobody wanted."""
        if at >= len(self.running):
            return
        one = self.sequence(at)
        kept = len(one.keys) - count
        if kept < 1 or any(kept < len(other.keys) for other in self.sharing(one)):
            return
        one.keys, one.values = one.keys[:kept], one.values[:kept]
        if frees:
            needed = -(-kept // self.engine.block)
            blocks, one.blocks = one.blocks[needed:], one.blocks[:needed]
            self.give_back(blocks, left)

    @rule(at=st.integers(0, 3), left=LEFT)
    def slide(self, at: int, left: float) -> None:
        """Blocks that the window has passed are others' from now on."""
        if at < len(self.running):
            one = self.sequence(at)
            passed = self.passed(len(one.keys))
            blocks, one.blocks[:passed] = one.blocks[:passed], [0] * passed
            self.give_back(blocks, left)

    def sequence(self, at: int) -> Sequence:
        return self.engine.sequences[self.running[at]]

    def sharing(self, one: Sequence) -> list[Sequence]:
        own = set(one.blocks) - {0}
        return [each for each in self.engine.sequences if each is not one and own & {*each.blocks}]

    def passed(self, tokens: int) -> int:
        """Blocks that the next query after so many tokens does not see."""
        return 0 if self.window is None else max(0, tokens - self.window + 1) // self.engine.block

    def give_back(self, blocks: list[int], left: float) -> None:
        held = {block for each in self.engine.sequences for block in each.blocks}
        for block in set(blocks) - held - {0}:
            self.engine.cache[block] = left
            self.engine.free.append(block)  # and it is the next one that is taken


Scheduled.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestScheduled = Scheduled.TestCase


def test_what_the_last_owner_left_is_noticed_where_it_is_not_taken_out(monkeypatch):
    monkeypatch.setattr(PagedBuilder, "_begun", lambda *_: None)
    machine = Scheduled()
    machine.start(None, False, (4, 2), 16)
    machine.join(None, 0)
    machine.join(None, 0)
    with pytest.raises(AssertionError):
        machine.step([20, 25, None, None], [0, 1, 2, 3], 0)

"""How a step's sequences are put together: each query once, and little padding."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from jumar.vllm.attention.batches import CALL, LAYING_OUT, PADDING, Batch, grouped, pieces

SEQUENCES = st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 1500)), min_size=1, max_size=40)
TOKEN_BYTES, WORKSPACE = 1536, 4 << 20


def laid_out(sequences, causal=True, window=None):
    starts, lengths = [0], []
    for old, new in sequences:
        starts.append(starts[-1] + new)
        lengths.append(old + new)
    return pieces(starts, lengths, causal, window, 16)


@given(SEQUENCES, st.none() | st.integers(1, 100), st.booleans())
def test_every_query_is_computed_once_and_sees_its_keys(sequences, window, causal):
    found = laid_out(sequences, causal, window)
    tokens = [token for one in found for token in range(one.start, one.start + one.queries)]
    assert tokens == list(range(sum(new for _, new in sequences)))
    for one in found:
        total = sum(sequences[one.row])
        last = one.first + one.queries - 1
        assert one.end == (last + 1 if causal else total)
        assert one.begin % 16 == 0 and one.begin <= max(0, one.first - (window or total) + 1)


@given(SEQUENCES, st.sampled_from([1, 2, 30]))
def test_batches_hold_every_piece_once_and_pad_little(sequences, layers):
    found = laid_out(sequences)
    groups = grouped(found, TOKEN_BYTES, WORKSPACE, layers)
    assert sorted(one for group in groups for one in group) == sorted(found)
    for group in groups:
        queries = max(one.queries for one in group)
        keys = max(one.end - one.begin for one in group)
        visits = len(group) * keys * (queries + 1)
        needed = sum((one.end - one.begin) * (one.queries + 1) for one in group)
        assert visits <= PADDING * needed + CALL * (1 + LAYING_OUT / layers) / TOKEN_BYTES
        assert len(group) == 1 or len(group) * keys * TOKEN_BYTES <= WORKSPACE


def test_callers_of_like_lengths_are_one_batch_and_a_long_one_does_not_pad_the_short():
    assert len(grouped(laid_out([(100 + i % 5, 1) for i in range(16)]), 1536, 4 << 20)) == 1
    groups = grouped(laid_out([(8, 1)] * 20 + [(2000, 1)]), 1536, 4 << 20)
    assert sorted(len(group) for group in groups) == [1, 20]


@given(SEQUENCES)
def test_the_tokens_of_a_batch_are_a_slice_exactly_where_they_follow_each_other(sequences):
    for group in grouped(laid_out(sequences), TOKEN_BYTES, WORKSPACE):
        batch = Batch(group, torch.device("cpu"))
        tokens = batch.tokens
        if isinstance(tokens, slice):
            tokens = torch.arange(tokens.start, tokens.stop)
        expected = [
            one.start + min(step, one.queries - 1) for one in group for step in range(batch.q)
        ]
        assert tokens.tolist() == expected

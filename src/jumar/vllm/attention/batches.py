"""One step's sequences as a few padded batches: nothing loops over sequences after this.

Each layer of a step attends over the same tokens, blocks and masks; all of it is laid out here
once. Sequences of one batch are padded to its longest, so batches are made of like lengths: a
batch ends where padding would cost more than one more call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

QUERY_TILE = 512
"""Queries of a long prompt that are computed at once: what lies above the diagonal is skipped."""
MASK_ELEMENTS = 1 << 22
"""Queries times keys of one batch, at most (one sequence alone has at least 16 queries)."""
CALL = 400_000
"""What one more batch costs a layer (40 us on a core), in bytes of keys and values that are
visited: that are gathered, or met by a query."""
LAYING_OUT = 4
"""What one more batch costs a step before its first layer, in layers."""
PADDING = 1.25
"""A batch may visit this many times what its sequences need, beside one `CALL`."""


class Piece(NamedTuple):
    """Consecutive queries of one sequence, and the keys that they see."""

    row: int
    """Its sequence: the row of the block table."""
    start: int
    """The first query's token in the step."""
    queries: int
    first: int
    """The first query's position in its sequence."""
    begin: int
    """The position of the first key, where a block begins."""
    end: int
    """The position after the last key."""


def pieces(
    starts: Sequence[int], lengths: Sequence[int], causal: bool, window: int | None, block: int
) -> list[Piece]:
    """What a step computes: its sequences, those with many queries in tiles.

    `starts` (sequences + 1) are the first tokens, `lengths` the keys of each, the new ones with
    them. Keys that no query of a tile can see are left out.
    """
    found = []
    whole = not (causal and window)
    for row, (start, stop, length) in enumerate(zip(starts, starts[1:], lengths, strict=False)):
        if whole and stop - start == 1:  # most are, in most steps
            found.append(Piece(row, start, 1, length - 1, 0, length))
            continue
        tile = min(QUERY_TILE, max(16, MASK_ELEMENTS // max(length, 1)))
        first = length - (stop - start)
        for offset in range(0, stop - start, tile):
            queries = min(tile, stop - start - offset)
            at = first + offset
            end = at + queries if causal else length
            begin = max(0, at - window + 1) // block * block if causal and window else 0
            found.append(Piece(row, start + offset, queries, at, begin, end))
    return found


def grouped(
    found: Iterable[Piece], token_bytes: int, workspace: int, layers: int = 1
) -> list[list[Piece]]:
    """Pieces of like size together; the keys of a batch of several fit `workspace` bytes.

    `token_bytes` are those of a token's keys and values in one layer; `layers` share the batches.
    """
    groups: list[list[Piece]] = []
    needed, longest, count = 0, 0, 0
    call = CALL * (1 + LAYING_OUT / layers) / token_bytes
    for queries, own, piece in sorted((one.queries, one.end - one.begin, one) for one in found):
        keys, visits = max(longest, own), own * (queries + 1)
        padded = (count + 1) * keys
        fits = padded * token_bytes <= workspace and padded * queries <= MASK_ELEMENTS
        if count and fits and padded * (queries + 1) <= PADDING * (needed + visits) + call:
            groups[-1].append(piece)
            needed, longest, count = needed + visits, keys, count + 1
        else:
            groups.append([piece])
            needed, longest, count = visits, own, 1
    return [sorted(group, key=lambda one: one.start) for group in groups]


@dataclass(eq=False)
class Batch:
    """Pieces side by side: n sequences, q queries and k keys each, the shorter ones padded.

    A padded query repeats its piece's last one; masks leave padded keys out.
    """

    pieces: list[Piece]
    device: torch.device
    n: int = field(init=False)
    q: int = field(init=False)
    k: int = field(init=False)
    tokens: slice | Tensor = field(init=False)
    """The n * q tokens of the queries in the step."""
    _masks: dict[tuple[bool, int | None, torch.dtype], Tensor | None] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        queries = [one.queries for one in self.pieces]
        self.n, self.q, self.k = len(queries), max(queries), max(self._seen())
        self.tokens = self._span([one.start for one in self.pieces], queries)

    @property
    def even(self) -> bool:
        """Whether no key is padded."""
        return min(self._seen()) == self.k

    @property
    def square(self) -> bool:
        """Whether every query sees the keys up to its own, and nothing is padded."""
        return all(one.first == one.begin == 0 and one.queries == self.k for one in self.pieces)

    def mask(self, causal: bool, window: int | None, dtype: torch.dtype) -> Tensor | None:
        """What is added to scores (n, 1, q, k): 0 or -inf; None where every query sees all keys.

        A window of w tokens: a query sees itself and w - 1 tokens before it, and w - 1 after it
        where the model looks both ways.
        """
        key = (causal, window, dtype)
        if key not in self._masks:
            self._masks[key] = self._mask(*key)
        return self._masks[key]

    def distances(self) -> Tensor:
        """Position of the key less that of the query (n, 1, q, k), float32 on the device."""
        query, key = self._positions()
        return (key[:, None] - query[:, :, None]).float().unsqueeze(1).to(self.device)

    def _mask(self, causal: bool, window: int | None, dtype: torch.dtype) -> Tensor | None:
        alone = self.q == 1 and (window is None or self.k <= window)
        if alone:
            if self.even:
                return None
            hidden = torch.arange(self.k) >= torch.tensor(self._seen())[:, None]
            mask = torch.zeros(hidden.shape, dtype=dtype).masked_fill_(hidden, float("-inf"))
            return mask[:, None, None].to(self.device)
        query, key = self._positions()
        query, key = query[:, :, None], key[:, None]
        seen = key < torch.tensor([one.end for one in self.pieces])[:, None, None]
        if causal:
            seen = seen & (key <= query)
        if window is not None:
            seen = seen & (key > query - window)
            if not causal:
                seen = seen & (key < query + window)
        if seen.all():
            return None
        mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))
        return mask.expand(self.n, self.q, self.k).unsqueeze(1).to(self.device)

    @cached_property
    def key_tokens(self) -> slice | Tensor:
        """The n * k tokens of the keys in the step, where it holds whole sequences."""
        return self._span([one.start - one.first + one.begin for one in self.pieces], self._seen())

    def _seen(self) -> list[int]:
        return [one.end - one.begin for one in self.pieces]

    def _positions(self) -> tuple[Tensor, Tensor]:
        """Of queries (n, q) and keys (n, k), on the host."""
        first, count, begin = torch.tensor(
            [(one.first, one.queries - 1, one.begin) for one in self.pieces]
        ).unbind(1)
        steps = torch.arange(self.q)[None].minimum(count[:, None])
        return first[:, None] + steps, begin[:, None] + torch.arange(self.k)[None]

    def _span(self, starts: list[int], counts: list[int]) -> slice | Tensor:
        """`counts` tokens from each start on, the shorter ones filled up with their last."""
        longest, begin = max(counts), starts[0]
        if all(
            start == begin + row * longest and count == longest
            for row, (start, count) in enumerate(zip(starts, counts, strict=True))
        ):
            return slice(begin, begin + len(starts) * longest)
        steps = torch.arange(longest)[None].minimum(torch.tensor(counts)[:, None] - 1)
        return (torch.tensor(starts)[:, None] + steps).flatten().to(self.device)

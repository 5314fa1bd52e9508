"""softmax(q k^T * scale + mask) v, for a padded batch: fused where torch can, spelt out where not.

torch's fused kernel knows masks. Soft caps, ALiBi and sinks are spelt out, in float32.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

if TYPE_CHECKING:
    from jumar.vllm.attention.batches import Batch

SCORES = 1 << 25
"""Scores that are spelt out at once, at most: 128 MiB."""


def rows_of(tokens: Tensor, which: slice | Tensor) -> Tensor:
    """Rows of the first axis: a view where they follow each other."""
    if isinstance(which, Tensor):
        return tokens.index_select(0, which)
    return tokens if which.stop - which.start == len(tokens) else tokens[which]


@dataclass(eq=False)
class Formula:
    """What one layer computes. H heads share G = H / (kv heads) at a time the same keys."""

    heads: int
    kv_heads: int
    scale: float
    window: int | None = None
    slopes: Tensor | None = None
    """ALiBi (H,): the slope times the distance is added to a score."""
    cap: float | None = None
    """Scores s become cap * tanh(s / cap)."""
    sinks: Tensor | None = None
    """(H,): a score that takes part in the softmax and has no value."""

    def __call__(
        self,
        batch: Batch,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        causal: bool,
        output: Tensor,
    ) -> None:
        """Attend with the batch's tokens of `query` (tokens, H, D), into those of `output`.

        `keys` and `values` are (n, kv heads, k, D).
        """
        fused = self.slopes is None and self.cap is None and self.sinks is None
        rows = rows_of(query, batch.tokens)
        if not fused:
            found = self._spelt_out(batch, rows, keys, values, causal)
        elif batch.q == 1:
            found = self._one_query(batch, rows, keys, values, causal)
        else:
            found = self._many_queries(batch, rows, keys, values, causal)
        if isinstance(batch.tokens, Tensor):
            output.index_copy_(0, batch.tokens, found.reshape(-1, *output.shape[1:]))
        else:
            rows_of(output, batch.tokens).view(found.shape).copy_(found)

    def _one_query(
        self, batch: Batch, rows: Tensor, keys: Tensor, values: Tensor, causal: bool
    ) -> Tensor:
        """The heads that share keys stand as queries beside each other: (n, kv heads, G, D)."""
        shared = rows.view(batch.n, self.kv_heads, -1, rows.shape[-1])
        mask = batch.mask(causal, self.window, rows.dtype)
        return scaled_dot_product_attention(shared, keys, values, mask, scale=self.scale)

    def _many_queries(
        self, batch: Batch, rows: Tensor, keys: Tensor, values: Tensor, causal: bool
    ) -> Tensor:
        """(n, q, H, D)."""
        split = rows.unflatten(0, (batch.n, batch.q)).transpose(1, 2)
        triangle = causal and batch.square and (self.window is None or self.window >= batch.k)
        found = scaled_dot_product_attention(
            split,
            keys,
            values,
            None if triangle else batch.mask(causal, self.window, rows.dtype),
            is_causal=triangle,
            scale=self.scale,
            enable_gqa=self.heads != self.kv_heads,
        )
        return found.transpose(1, 2)

    def _spelt_out(
        self, batch: Batch, rows: Tensor, keys: Tensor, values: Tensor, causal: bool
    ) -> Tensor:
        """(n, q, H, D), as many queries at a time as `SCORES` lets."""
        split = rows.float().unflatten(0, (batch.n, batch.q)).transpose(1, 2) * self.scale
        mask = batch.mask(causal, self.window, torch.float32)
        distances = None if self.slopes is None else batch.distances()
        keys, values = keys.float(), values.float()
        step = max(1, SCORES // (batch.n * self.heads * batch.k))
        parts = []
        for begin in range(0, batch.q, step):
            part = slice(begin, begin + step)
            weights = self._weights(
                split[:, :, part],
                keys,
                None if mask is None else mask[:, :, part],
                None if distances is None else distances[:, :, part],
            )
            parts.append((weights.flatten(2, 3) @ values).unflatten(2, weights.shape[2:4]))
        found = torch.cat(parts, 3).flatten(1, 2)
        return found.transpose(1, 2).to(rows.dtype)

    def _weights(
        self, query: Tensor, keys: Tensor, mask: Tensor | None, distances: Tensor | None
    ) -> Tensor:
        """(n, kv heads, G, q, k) of scaled queries (n, H, q, D)."""
        count = query.shape[2]
        shared = query.unflatten(1, (self.kv_heads, -1)).flatten(2, 3)
        scores = (shared @ keys.transpose(-1, -2)).unflatten(2, (-1, count)).flatten(1, 2)
        if self.cap is not None:
            scores = self.cap * (scores / self.cap).tanh()
        if distances is not None and self.slopes is not None:
            scores = scores + self._per_head(self.slopes, query) * distances
        if mask is not None:
            scores = scores + mask
        if self.sinks is not None:
            sink = self._per_head(self.sinks, query).expand(*scores.shape[:-1], 1)
            scores = torch.cat((scores, sink), -1)
        weights = scores.softmax(-1)[..., : keys.shape[2]]
        return weights.unflatten(1, (self.kv_heads, -1))

    @staticmethod
    def _per_head(numbers: Tensor, like: Tensor) -> Tensor:
        return numbers.to(like.device, torch.float32).view(1, -1, 1, 1)

"""What the specifications of attention share: the formula, written plainly, and steps of an engine.

Nothing here imports the code under test.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

NAN = float("nan")


@dataclass(frozen=True)
class Features:
    """One layer's attention."""

    heads: int = 4
    kv_heads: int = 2
    size: int = 16
    scale: float = 0.3
    dtype: torch.dtype = torch.float32
    window: int | None = None
    slopes: tuple[float, ...] | None = None
    cap: float | None = None
    sinks: tuple[float, ...] | None = None
    causal: bool = True


def dense(features: Features, query: Any, keys: Any, values: Any) -> Any:
    """Outputs (q, heads, size) in float64, one query and head at a time.

    `query` (q, heads, size) are the last of the sequence; `keys`, `values` (k, kv heads, size).
    """
    f = features
    query, keys, values = (one.double() for one in (query, keys, values))
    found = torch.empty_like(query)
    for i in range(len(query)):
        at = len(keys) - len(query) + i
        for head in range(f.heads):
            shared = head // (f.heads // f.kv_heads)
            seen = [
                j
                for j in range(len(keys))
                if (not f.causal or j <= at) and (f.window is None or abs(at - j) < f.window)
            ]
            scores = keys[seen, shared] @ query[i, head] * f.scale
            if f.cap is not None:
                scores = f.cap * torch.tanh(scores / f.cap)
            if f.slopes is not None:
                scores = scores + f.slopes[head] * (torch.tensor(seen).double() - at)
            if f.sinks is not None:
                scores = torch.cat((scores, torch.tensor([f.sinks[head]]).double()))
            weights = scores.softmax(0)[: len(seen)]
            found[i, head] = weights @ values[seen, shared]
    return found


@dataclass
class Sequence:
    """Its block table, and all keys and values so far (tokens, kv heads, size)."""

    blocks: list[int]
    keys: Any
    values: Any


@dataclass
class Engine:
    """One layer with its cache, stepped as vLLM steps it. Unwritten memory holds NaN."""

    backend: Any
    features: Features
    device: str = "cpu"
    block: int = 16
    seed: int = 0
    spec: Any = None
    layer: dict[str, Any] = field(default_factory=dict)
    blocks: int = 80

    def __post_init__(self) -> None:
        from vllm.v1.kv_cache_interface import FullAttentionSpec, SlidingWindowSpec

        f = self.features
        self.draw = torch.Generator().manual_seed(self.seed)
        self.free = torch.randperm(self.blocks - 1, generator=self.draw).add(1).tolist()
        known = {"block_size": self.block, "num_kv_heads": f.kv_heads, "head_size": f.size}
        if self.spec is None and f.window is not None:
            self.spec = SlidingWindowSpec(**known, dtype=f.dtype, sliding_window=f.window)
        elif self.spec is None:
            self.spec = FullAttentionSpec(**known, dtype=f.dtype)
        self.builder = self.backend.get_builder_cls()(self.spec, ["0"], None, self.on())
        shape = self.backend.get_kv_cache_shape(self.blocks, self.block, f.kv_heads, f.size)
        self.cache = torch.full(shape, NAN, dtype=f.dtype, device=self.device)
        self.impl = self.implementation()
        self.sequences: list[Sequence] = []

    def on(self) -> torch.device:
        return torch.device(self.device)

    def implementation(self, **changed: Any) -> Any:
        """As vLLM's Attention makes it."""
        f = self.features
        sinks = {} if f.sinks is None else {"sinks": torch.tensor(f.sinks, device=self.device)}
        given = {
            "num_heads": f.heads,
            "head_size": f.size,
            "scale": f.scale,
            "num_kv_heads": f.kv_heads,
            "alibi_slopes": None if f.slopes is None else list(f.slopes),
            "sliding_window": f.window,
            "kv_cache_dtype": "auto",
            "logits_soft_cap": f.cap,
        }
        before = torch.get_default_dtype()
        torch.set_default_dtype(f.dtype)  # vLLM makes layers under the model's
        try:
            return self.backend.get_impl_cls()(**given | sinks | self.layer | changed)
        finally:
            torch.set_default_dtype(before)

    def normal(self, *shape: int) -> Any:
        drawn = torch.randn(*shape, generator=self.draw)
        return drawn.to(self.features.dtype).to(self.device)

    def join(self, shares: Sequence | None = None, tokens: int = 0) -> int:
        """A new sequence; the first `tokens` (whole blocks) are another's. Its number."""
        f = self.features
        empty = self.normal(0, f.kv_heads, f.size)
        one = Sequence([], empty, empty.clone())
        if shares is not None:
            one.blocks = shares.blocks[: tokens // self.block]
            one.keys, one.values = shares.keys[:tokens], shares.values[:tokens]
        self.sequences.append(one)
        return len(self.sequences) - 1

    def step(self, new: dict[int, int], padding: int = 0, **changed: Any) -> tuple[Any, Any]:
        """Run `new` tokens of each sequence: the outputs (tokens, heads, size), and the formula's.

        `padding` tokens follow that have no slot.
        """
        f = self.features
        query, expected = [], []
        for number, count in new.items():
            one = self.sequences[number]
            more = [self.normal(count, f.kv_heads, f.size) for _ in range(2)]
            one.keys, one.values = torch.cat((one.keys, more[0])), torch.cat((one.values, more[1]))
            while len(one.blocks) * self.block < len(one.keys):
                one.blocks.append(self.free.pop())
            query.append(self.normal(count, f.heads, f.size))
            expected.append(dense(f, query[-1].cpu(), one.keys.cpu(), one.values.cpu()))
        stepped = [(self.sequences[number], count) for number, count in new.items()]
        keys = torch.cat([one.keys[len(one.keys) - count :] for one, count in stepped])
        values = torch.cat([one.values[len(one.values) - count :] for one, count in stepped])
        rows = [torch.cat((one, one[:1].expand(padding, -1, -1))) for one in (keys, values)]
        asked = torch.cat((*query, query[0][:1].expand(padding, -1, -1)))
        common = self.common(stepped, padding)
        got = self.through(self.changed(common, **changed), asked, *rows, **changed)
        return got[: len(keys)], torch.cat(expected)

    def changed(self, common: Any, slots: int = 0, causal: bool | None = None, **_: Any) -> Any:
        """For negative controls: slots off by so many, another mask."""
        causal = common.causal if causal is None else causal
        return common.replace(slot_mapping=common.slot_mapping + slots, causal=causal)

    def common(self, stepped: list[tuple[Sequence, int]], padding: int = 0) -> Any:
        """What vLLM's runner tells a builder of the step."""
        from vllm.v1.attention.backend import CommonAttentionMetadata

        counts = [count for _, count in stepped]
        lengths = [len(one.keys) for one, _ in stepped]
        table = torch.zeros(len(stepped), max(len(one.blocks) for one, _ in stepped) + 2).int()
        slots = []
        for row, (one, count) in enumerate(stepped):
            table[row, : len(one.blocks)] = torch.tensor(one.blocks, dtype=torch.int32)
            for at in range(len(one.keys) - count, len(one.keys)):
                slots.append(one.blocks[at // self.block] * self.block + at % self.block)
        starts = torch.tensor([0, *counts]).cumsum(0).int()
        return CommonAttentionMetadata(
            query_start_loc=starts.to(self.device),
            query_start_loc_cpu=starts,
            seq_lens=torch.tensor(lengths, dtype=torch.int32, device=self.device),
            num_reqs=len(stepped),
            num_actual_tokens=sum(counts),
            max_query_len=max(counts),
            max_seq_len=max(lengths),
            block_table_tensor=table.to(self.device),
            slot_mapping=torch.tensor(slots + [-1] * padding, device=self.device),
            causal=self.features.causal,
        )

    def through(
        self, common: Any, query: Any, key: Any, value: Any, impl: Any = None, **_: Any
    ) -> Any:
        """As vLLM's Attention calls a layer: who writes the cache is what the backend says."""
        impl = impl or self.impl
        metadata = self.builder.build(0, common)
        output = torch.full_like(query, NAN)
        if not self.backend.forward_includes_kv_cache_update:
            impl.do_kv_cache_update(None, key, value, self.cache, common.slot_mapping)
        impl.forward(None, query, key, value, self.cache, metadata, output)
        return output


LIMITS = {torch.float32: 3e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}
"""Results of unit variance may be off by so much: the dtype's own rounding, a few times."""


def close(got: Any, expected: Any, dtype: torch.dtype) -> bool:
    """Whether outputs are the formula's; NaN is not."""
    return bool((got.cpu().double() - expected).abs().max() <= LIMITS[dtype])

"""The paged attention for vLLM beside one that takes a sequence after another: same work, in turn.

    OMP_NUM_THREADS=1 python -m benchmarks.vllm_attention     # where vLLM is installed

A step is what an engine asks for: its metadata once, then for each layer the write to the cache and
the attention. The peer is the obvious way to do it in torch: per sequence its blocks are gathered
and joined, and torch's fused kernel attends. CPU time.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.measure import HEADER, in_turn

BLOCK, ROUNDS = 16, 15


class Shape(NamedTuple):
    """A model's attention."""

    name: str
    layers: int
    heads: int
    kv_heads: int
    size: int


TINY = Shape("tiny qwen3", 2, 4, 2, 32)
SMOL = Shape("smollm2-135m", 30, 9, 3, 64)


class Case(NamedTuple):
    """A step: per sequence, the tokens in the cache and the new ones."""

    label: str
    shape: Shape
    sequences: list[tuple[int, int]]


def cases() -> list[Case]:
    """Decoding alone and together, at like and at mixed lengths; prompts; both."""
    draw = random.Random(0)
    mixed = [(draw.randrange(8, 256), 1) for _ in range(32)]
    prompts = [(0, draw.randrange(4, 100)) for _ in range(8)]
    return [
        Case("1 decodes", TINY, [(100, 1)]),
        Case("32 decode, like lengths", TINY, [(100 + i % 3, 1) for i in range(32)]),
        Case("32 decode, 8..256", TINY, mixed),
        Case("1 decodes", SMOL, [(100, 1)]),
        Case("8 decode, 8..256", SMOL, mixed[:8]),
        Case("32 decode, 8..256", SMOL, mixed),
        Case("32 decode, all 256", SMOL, [(255, 1)] * 32),
        Case("8 prompts, 4..100", SMOL, prompts),
        Case("1 prompt of 512", SMOL, [(0, 512)]),
        Case("24 decode, 4 prompts", SMOL, mixed[:24] + prompts[:4]),
    ]


@dataclass
class Step:
    """The tensors of a case: caches (layers), queries, keys, values, and what a builder gets."""

    case: Case
    common: Any
    caches: list[Any]
    query: Any
    key: Any
    value: Any
    output: Any


def laid_out(case: Case) -> Step:
    """Blocks are given out at random, as they are after a while of serving."""
    import torch
    from vllm.v1.attention.backend import CommonAttentionMetadata

    shape, sequences = case.shape, case.sequences
    torch.manual_seed(0)
    lengths = [old + new for old, new in sequences]
    width = -(-max(lengths) // BLOCK)
    blocks = 1 + width * len(sequences)
    table = (1 + torch.randperm(blocks - 1)).view(len(sequences), width).int()
    places = [torch.arange(old, old + new) for old, new in sequences]
    slots = [table[i, at // BLOCK].long() * BLOCK + at % BLOCK for i, at in enumerate(places)]
    starts = torch.tensor([0] + [new for _, new in sequences]).cumsum(0).int()
    tokens = int(starts[-1])
    common = CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=torch.tensor(lengths, dtype=torch.int32),
        num_reqs=len(sequences),
        num_actual_tokens=tokens,
        max_query_len=max(new for _, new in sequences),
        max_seq_len=max(lengths),
        block_table_tensor=table,
        slot_mapping=torch.cat(slots),
    )
    packed = (blocks, shape.kv_heads, BLOCK, 2 * shape.size)
    caches = [torch.randn(packed) for _ in range(shape.layers)]
    drawn = torch.randn(tokens, shape.heads + 2 * shape.kv_heads, shape.size)
    query, key, value = drawn.split([shape.heads, shape.kv_heads, shape.kv_heads], 1)
    return Step(case, common, caches, query, key, value, torch.empty(query.shape))


def ours(step: Step) -> Any:
    """A function that runs the step with Jumar's backend."""
    import torch
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    from jumar.vllm.attention.paged import TorchPagedBackend

    shape = step.case.shape
    spec = FullAttentionSpec(
        block_size=BLOCK,
        num_kv_heads=shape.kv_heads,
        head_size=shape.size,
        dtype=torch.float32,
    )
    names = [str(number) for number in range(shape.layers)]
    builder = TorchPagedBackend.get_builder_cls()(spec, names, None, torch.device("cpu"))
    implementation = TorchPagedBackend.get_impl_cls()
    layers = [
        implementation(shape.heads, shape.size, shape.size**-0.5, shape.kv_heads)
        for _ in range(shape.layers)
    ]

    def run() -> Any:
        metadata = builder.build(0, step.common)
        for layer, cache in zip(layers, step.caches, strict=True):
            layer.forward(None, step.query, step.key, step.value, cache, metadata, step.output)
        return step.output

    return run


def one_by_one(step: Step) -> Any:
    """The peer."""
    import torch
    import torch.nn.functional as F  # noqa: N812

    shape, common = step.case.shape, step.common
    scale, grouped = shape.size**-0.5, shape.heads != shape.kv_heads

    def attend(cache: Any, starts: list[int], lengths: list[int], output: Any) -> None:
        kept = common.slot_mapping >= 0
        slots = common.slot_mapping[kept]
        new = torch.cat((step.key[kept], step.value[kept]), -1)
        cache.transpose(1, 2)[slots // BLOCK, slots % BLOCK] = new.to(cache.dtype)
        for row, length in enumerate(lengths):
            begin, end = starts[row], starts[row + 1]
            ids = common.block_table_tensor[row, : -(-length // BLOCK)].long()
            joined = cache[ids].transpose(0, 1).flatten(1, 2)[:, :length]
            keys, values = joined.to(step.query.dtype).split(shape.size, -1)
            mask = None
            if end - begin > 1:
                at = torch.arange(length - (end - begin), length)[:, None]
                mask = torch.arange(length)[None] <= at
            found = F.scaled_dot_product_attention(
                step.query[begin:end].transpose(0, 1)[None],
                keys[None],
                values[None],
                mask,
                scale=scale,
                enable_gqa=grouped,
            )
            output[begin:end] = found[0].transpose(0, 1)

    def run() -> Any:
        starts, lengths = common.query_start_loc_cpu.tolist(), common.seq_lens.tolist()
        for cache in step.caches:
            attend(cache, starts, lengths, step.output)
        return step.output

    return run


def main() -> None:
    """Print milliseconds per step; the outputs of both are compared first."""
    import torch

    torch.set_num_threads(1)
    print(HEADER)
    for case in cases():
        step = laid_out(case)
        mine, peer = ours(step), one_by_one(step)
        torch.testing.assert_close(mine().clone(), peer(), rtol=1e-4, atol=1e-5)
        print(in_turn(f"{case.shape.name}: {case.label}", mine, peer, pairs=ROUNDS).row())


if __name__ == "__main__":
    with __import__("torch").inference_mode():
        main()

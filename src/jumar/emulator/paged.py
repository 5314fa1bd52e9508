"""Fused attention over the tokens of many sequences (layout TND), and the blocks that it reads.

T tokens of all sequences, N heads, D head size. What the vendor's pages say it does not take is
refused here too. Keys and values are (T, N, D), or blocks (blocks, block size, N * D) with a table.
"""

from __future__ import annotations

from typing import Any

HEAD_SIZES = (64, 128, 192)
TEMPLATE = 2048
"""A causal mask is a template of this many rows and columns, whatever the lengths."""


def scatter_pa_kv_cache(
    key: Any,
    value: Any,
    key_cache: Any,
    value_cache: Any,
    slot_mapping: Any,
    *,
    cache_mode: str | None = "PA_NZ",
    **rest: Any,
) -> None:
    """Write tokens (T, N, D) to their slots of (blocks, block size, N, D)."""
    op = "npu_scatter_pa_kv_cache"
    if cache_mode != "Norm" or any(one is not None for one in rest.values()):
        raise RuntimeError(f"{op}: only cache_mode 'Norm', without compression, is emulated")
    given = (key, value, key_cache, value_cache)
    if len({one.dtype for one in given}) > 1:
        raise RuntimeError(f"{op}: keys, values and their caches have to be of one dtype")
    if not all(one.is_contiguous() for one in (*given, slot_mapping)):
        raise RuntimeError(f"{op}: an input is not contiguous")
    if key.is_meta:
        return
    slots = key_cache.shape[0] * key_cache.shape[1]
    if slot_mapping.numel() and not 0 <= int(slot_mapping.min()) <= int(slot_mapping.max()) < slots:
        raise RuntimeError(f"{op}: a slot is not in [0, {slots})")
    for tokens, cache in ((key, key_cache), (value, value_cache)):
        cache.view(slots, *cache.shape[2:])[slot_mapping.long()] = tokens


def attend(
    query: Any, key: Any, value: Any, mask: Any, settings: dict[str, Any]
) -> tuple[Any, Any]:
    """Output (T, N, D) and the logarithm of each softmax's sum (T, N, 1), in float."""
    import torch

    op, table = settings["op"], settings["block_table"]
    ends, lengths = settings["actual_seq_lengths"], settings["actual_seq_lengths_kv"]
    _check(query, key, value, mask, settings)
    if query.is_meta:
        return query.float(), query.new_empty((*query.shape[:2], 1), dtype=torch.float32)
    out = torch.zeros_like(query, dtype=torch.float32)
    lse = out.new_zeros((*out.shape[:2], 1))
    if table is None:
        lengths = [end - begin for begin, end in zip([0, *lengths], lengths, strict=False)]
    begin, first = 0, 0
    for row, (end, count) in enumerate(zip(ends, lengths, strict=True)):
        if table is None:
            keys, values = (one[first : first + count] for one in (key, value))
        else:
            blocks = table[row, : -(-count // settings["block_size"])].to(torch.int64)
            keys, values = (one[blocks].flatten(0, 1)[:count] for one in (key, value))
        first += count
        if end > begin:
            part = slice(begin, end)
            out[part], lse[part] = _one(query[part], keys, values, settings, op)
        begin = end
    return out, lse


def _one(query: Any, keys: Any, values: Any, settings: dict[str, Any], op: str) -> tuple[Any, Any]:
    """One sequence: its last queries (q, N, D) and all keys (k, ...)."""
    import torch

    heads = query.shape[1]
    kv_heads = settings["kv_heads"] or heads
    shared = [
        one.reshape(len(keys), kv_heads, -1).float().repeat_interleave(heads // kv_heads, 1)
        for one in (keys, values)
    ]
    scores = torch.einsum("qnd,knd->nqk", query.float(), shared[0]) * settings["scale"]
    if settings["sparse_mode"] == 3:
        if len(query) > len(keys):
            raise RuntimeError(f"{op}: more queries than keys in sparse_mode 3")
        above = torch.ones(scores.shape[1:], dtype=torch.bool).triu(len(keys) - len(query) + 1)
        scores = scores.masked_fill(above, float("-inf"))
    lse = scores.logsumexp(-1, keepdim=True)
    out = torch.einsum("nqk,knd->qnd", (scores - lse).exp(), shared[1])
    return out, lse.transpose(0, 1)


def _check(query: Any, key: Any, value: Any, mask: Any, settings: dict[str, Any]) -> None:
    import torch

    op, mode, table = settings["op"], settings["sparse_mode"], settings["block_table"]
    template = mask is not None and mask.shape[-2:] == (TEMPLATE, TEMPLATE)
    wrong = {
        "float16 and bfloat16 only": query.dtype not in (torch.float16, torch.bfloat16),
        "an input is not contiguous": not all(
            one is None or one.is_contiguous() for one in (query, key, value, mask, table)
        ),
        f"head size {query.shape[-1]} in layout TND": query.shape[-1] not in HEAD_SIZES,
        "layout TND without actual_seq_lengths and actual_seq_lengths_kv": (
            settings["actual_seq_lengths"] is None or settings["actual_seq_lengths_kv"] is None
        ),
        f"sparse_mode {mode} in layout TND": mode not in (0, 3),
        "a mask with sparse_mode 0 in layout TND": mode == 0 and mask is not None,
        "sparse_mode 3 without a mask of 2048 x 2048": mode == 3 and not template,
        "keys in blocks that are not a multiple of 128 (error 561002)": (
            table is not None and settings["block_size"] % 128 != 0
        ),
        "a table that is not int32": table is not None and table.dtype != torch.int32,
    }
    for what, found in wrong.items():
        if found:
            raise RuntimeError(f"{op}: {what}")

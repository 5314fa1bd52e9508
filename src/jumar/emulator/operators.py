"""The `npu::` operators that language and diffusion models use, with CPU reference kernels.

Schemas (`npu_2.13.txt`) are those of torch_npu 2.13.0, character by character.
Kernels compute in float and round once at the end, as the vector unit does; they run on the CPU
aliases of npu tensors, and on `meta` for shapes. Layouts follow the names: B batch, S sequence,
N heads, D head size, H = N * D.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path
from typing import Any

from jumar.emulator import paged


@cache
def schemas() -> dict[str, str]:
    """The schemas by name."""
    lines = Path(__file__).with_name("npu_2.13.txt").read_text(encoding="utf-8").splitlines()
    return {line.split("(", 1)[0]: line for line in lines if not line.startswith("#")}


def register() -> Any:
    """Define all of them with their kernels; the library has to be kept."""
    import torch

    library = torch.library.Library("npu", "DEF")
    for name, schema in schemas().items():
        library.define(schema)
        for key in ("CPU", "Meta"):  # npu tensors reach the CPU's kernel through the fallback
            library.impl(name, globals()[f"_{name.removeprefix('npu_')}"], key)
    return library


def _rounded(value: Any, dtype: Any) -> Any:
    """`value` in `dtype`: to a neighbour that the device's noise draws, where it draws."""
    import torch

    if value.is_meta:
        return value.to(dtype)
    return torch.ops.jumar_emulator.faithful(value, dtype)


def _unsupported(op: str, what: str) -> RuntimeError:
    return RuntimeError(f"{op}: {what} is not emulated")


# ---- activations ---------------------------------------------------------------------------------


def _silu(x: Any) -> Any:
    import torch

    return _rounded(torch.nn.functional.silu(x.float()), x.dtype)


def _fast_gelu(x: Any) -> Any:
    """x * sigmoid(1.702 x): Hendrycks and Gimpel, 2016."""
    wide = x.float()
    return _rounded(wide * (1.702 * wide).sigmoid(), x.dtype)


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    import torch

    return _rounded(torch.nn.functional.gelu(x.float(), approximate=approximate), x.dtype)


def _swiglu(x: Any, dim: int = -1) -> Any:
    import torch

    left, right = x.float().chunk(2, dim)
    return _rounded(torch.nn.functional.silu(left) * right, x.dtype)


def _geglu(
    x: Any, dim: int = -1, approximate: int = 1, activate_left: bool = False
) -> tuple[Any, Any]:
    import torch

    left, right = x.float().chunk(2, dim)
    gate, value = (left, right) if activate_left else (right, left)
    kind = "tanh" if approximate else "none"
    gate = torch.nn.functional.gelu(gate, approximate=kind)
    return _rounded(value * gate, x.dtype), _rounded(gate, x.dtype)


# ---- norms ---------------------------------------------------------------------------------------


def _rms_norm(x: Any, gamma: Any, epsilon: float = 1e-6) -> tuple[Any, Any]:
    import torch

    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + epsilon)
    return _rounded(wide * scale * gamma.float(), x.dtype), scale


def _gemma_rms_norm(x: Any, gamma: Any, epsilon: float = 1e-6) -> tuple[Any, Any]:
    return _rms_norm(x, gamma.float() + 1, epsilon)


def _add_rms_norm(x1: Any, x2: Any, gamma: Any, epsilon: float = 1e-6) -> tuple[Any, Any, Any]:
    total = x1 + x2
    y, scale = _rms_norm(total, gamma, epsilon)
    return y, scale, total


def _add_layer_norm(
    x1: Any,
    x2: Any,
    gamma: Any,
    beta: Any,
    epsilon: float = 1e-5,
    additional_output: bool = False,
) -> tuple[Any, Any, Any, Any]:
    import torch

    total = (x1 + x2).float()
    mean = total.mean(-1, keepdim=True)
    scale = torch.rsqrt((total - mean).pow(2).mean(-1, keepdim=True) + epsilon)
    y = (total - mean) * scale * gamma.float() + beta.float()
    sums = total.to(x1.dtype) if additional_output else x1.new_empty(0)
    return _rounded(y, x1.dtype), mean, scale, sums


def _layer_norm_eval(
    x: Any, normalized_shape: list[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    import torch

    wide = [None if one is None else one.float() for one in (weight, bias)]
    return _rounded(
        torch.nn.functional.layer_norm(x.float(), normalized_shape, *wide, eps), x.dtype
    )


def _group_norm_silu(
    x: Any, weight: Any, bias: Any, group: int, eps: float = 1e-5
) -> tuple[Any, Any, Any]:
    import torch

    grouped = x.float().reshape(x.shape[0], group, -1)
    mean = grouped.mean(-1)
    scale = torch.rsqrt(grouped.var(-1, correction=0) + eps)
    wide = [None if one is None else one.float() for one in (weight, bias)]
    y = torch.nn.functional.group_norm(x.float(), group, *wide, eps)
    return _rounded(torch.nn.functional.silu(y), x.dtype), mean.to(x.dtype), scale.to(x.dtype)


# ---- positions -----------------------------------------------------------------------------------


def _rotary_mul(x: Any, r1: Any, r2: Any, rotary_mode: str = "half", rotate: Any = None) -> Any:
    import torch

    wide = x.float()
    if rotate is not None:
        raise _unsupported("npu_rotary_mul", "a rotation matrix")
    if rotary_mode == "half":
        left, right = wide.chunk(2, -1)
        turned = torch.cat((-right, left), -1)
    elif rotary_mode == "interleave":
        turned = torch.stack((-wide[..., 1::2], wide[..., ::2]), -1).flatten(-2)
    else:
        raise _unsupported("npu_rotary_mul", f"rotary_mode {rotary_mode!r}")
    return _rounded(wide * r1.float() + turned * r2.float(), x.dtype)


def _apply_rotary_pos_emb(
    query: Any, key: Any, cos: Any, sin: Any, layout: str = "BSND", rotary_mode: str = "half"
) -> tuple[Any, Any]:
    if layout != "BSND":
        raise _unsupported("npu_apply_rotary_pos_emb", f"layout {layout!r}")
    turned = [_rotary_mul(one, cos, sin, rotary_mode) for one in (query, key)]
    return turned[0], turned[1]


# ---- attention -----------------------------------------------------------------------------------


def _split_heads(tensor: Any, layout: str, heads: int) -> Any:
    """(B, N, S, D) of a tensor in `layout`."""
    if layout == "BNSD":
        return tensor
    if layout == "BSND":
        return tensor.transpose(1, 2)
    if layout == "BSH":
        return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)
    if layout == "SBH":
        return tensor.unflatten(-1, (heads, -1)).permute(1, 2, 0, 3)
    raise _unsupported("attention", f"layout {layout!r}")


def _join_heads(tensor: Any, layout: str) -> Any:
    """The inverse of `_split_heads`, contiguous."""
    joined = {
        "BNSD": lambda: tensor,
        "BSND": lambda: tensor.transpose(1, 2),
        "BSH": lambda: tensor.transpose(1, 2).flatten(2),
        "SBH": lambda: tensor.permute(2, 0, 1, 3).flatten(2),
    }[layout]()
    return joined.contiguous()


def _scores(query: Any, key: Any, scale: float, pse: Any, mask: Any, causal: bool) -> Any:
    """Masked scores (B, N, Sq, Sk) in float; in `mask` true is left out, unlike torch's."""
    import torch

    scores = query.float() @ key.float().transpose(-1, -2) * scale
    if pse is not None:
        scores = scores + pse.float()
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    if mask is not None:
        scores = scores.masked_fill(mask.bool(), float("-inf"))
    return scores


def _attend(
    query: Any, key: Any, value: Any, scale: float, pse: Any, mask: Any, causal: bool
) -> tuple[Any, Any, Any]:
    """Output (B, N, Sq, D), and the maximum and sum (B, N, Sq, 1) of each softmax."""
    groups = query.shape[1] // key.shape[1]
    if groups > 1:
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scores = _scores(query, key, scale, pse, mask, causal)
    peak = scores.amax(-1, keepdim=True)
    weights = (scores - peak).exp()
    total = weights.sum(-1, keepdim=True)
    return (weights / total) @ value.float(), peak, total


CAUSAL = (2, 3)
"""sparse_mode: 2 lower triangle from the left, 3 from the right; the mask is then a template."""


def _is_causal(sparse_mode: int, query: Any, key: Any, op: str) -> bool:
    if sparse_mode in (0, 1):
        return False
    if sparse_mode in CAUSAL and query.shape[-2] == key.shape[-2]:
        return True
    raise _unsupported(op, f"sparse_mode {sparse_mode} with these lengths")


def _fusion_attention(
    query: Any,
    key: Any,
    value: Any,
    head_num: int,
    input_layout: str,
    pse: Any = None,
    padding_mask: Any = None,
    atten_mask: Any = None,
    scale: float = 1.0,
    keep_prob: float = 1.0,
    pre_tockens: int = 2147483647,
    next_tockens: int = 2147483647,
    inner_precise: int = 0,
    prefix: Any = None,
    actual_seq_qlen: Any = None,
    actual_seq_kvlen: Any = None,
    sparse_mode: int = 0,
    *rest: Any,
    **named: Any,
) -> tuple[Any, Any, Any, Any, int, int, int]:
    if keep_prob != 1.0:
        raise _unsupported("npu_fusion_attention", "dropout")
    size = query.shape[-1] // head_num
    heads = head_num if input_layout in ("BNSD", "BSND") else key.shape[-1] // size
    q = _split_heads(query, input_layout, head_num)
    k, v = (_split_heads(one, input_layout, heads) for one in (key, value))
    causal = _is_causal(sparse_mode, q, k, "npu_fusion_attention")
    out, peak, total = _attend(q, k, v, scale, pse, atten_mask, causal)
    joined = _join_heads(_rounded(out, query.dtype), input_layout)
    eight = [one.expand(*one.shape[:-1], 8).contiguous() for one in (peak, total)]
    return joined, *eight, query.new_empty(0), 0, 0, 0


def _infer_attention(
    query: Any, key: Any, value: Any, mask: Any, pse: Any, settings: dict[str, Any]
) -> tuple[Any, Any]:
    layout, heads = settings["layout"], settings["heads"]
    kv_heads = settings["kv_heads"] or heads
    q = _split_heads(query, layout, heads)
    k, v = (_split_heads(one, layout, kv_heads) for one in (key, value))
    causal = _is_causal(settings["sparse_mode"], q, k, settings["op"])
    out, peak, total = _attend(q, k, v, settings["scale"], pse, mask, causal)
    return _join_heads(_rounded(out, query.dtype), layout), peak + total.log()


def _prompt_flash_attention(
    query: Any,
    key: Any,
    value: Any,
    *,
    atten_mask: Any = None,
    pse_shift: Any = None,
    num_heads: int = 1,
    scale_value: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    **rest: Any,
) -> Any:
    _refuse_given("npu_prompt_flash_attention", rest, "actual_seq_lengths", "quant_scale1")
    settings = {
        "op": "npu_prompt_flash_attention",
        "layout": input_layout,
        "heads": num_heads,
        "kv_heads": num_key_value_heads,
        "scale": scale_value,
        "sparse_mode": sparse_mode,
    }
    return _infer_attention(query, key, value, atten_mask, pse_shift, settings)[0]


def _fused_infer_attention_score(
    query: Any,
    key: Any,
    value: Any,
    *,
    pse_shift: Any = None,
    atten_mask: Any = None,
    num_heads: int = 1,
    scale: float = 1.0,
    input_layout: str = "BSH",
    num_key_value_heads: int = 0,
    sparse_mode: int = 0,
    softmax_lse_flag: bool = False,
    **rest: Any,
) -> tuple[Any, Any]:
    op = "npu_fused_infer_attention_score"
    _refuse_given(op, rest, "query_rope", "antiquant_scale", "quant_scale1", "quant_scale2")
    settings = {
        "op": op,
        "layout": input_layout,
        "heads": num_heads,
        "kv_heads": num_key_value_heads,
        "scale": scale,
        "sparse_mode": sparse_mode,
    }
    by_token = ("actual_seq_lengths", "actual_seq_lengths_kv", "block_table")
    if input_layout == "TND":
        given = {key: rest.get(key) for key in by_token}
        settings |= {**given, "block_size": rest.get("block_size", 0)}
        wide, lse = paged.attend(query, key, value, atten_mask, settings)
        out = _rounded(wide, query.dtype)
    else:
        _refuse_given(op, rest, *by_token)
        out, lse = _infer_attention(query, key, value, atten_mask, pse_shift, settings)
    return out, lse if softmax_lse_flag else query.new_zeros(1).float()


_scatter_pa_kv_cache = paged.scatter_pa_kv_cache


def _refuse_given(op: str, given: dict[str, Any], *keys: str) -> None:
    for key in keys:
        if given.get(key) is not None:
            raise _unsupported(op, key)


# ---- the rest ------------------------------------------------------------------------------------


def _linear(x: Any, weight: Any, bias: Any = None) -> Any:
    import torch

    wide = None if bias is None else bias.float()
    return _rounded(torch.nn.functional.linear(x.float(), weight.float(), wide), x.dtype)


def _moe_gating_top_k_softmax(x: Any, finished: Any = None, k: int = 1) -> tuple[Any, Any, Any]:
    """Weights, experts and rows (..., k); a finished row has the expert number past the last."""
    import torch

    weights, experts = x.float().softmax(-1).topk(k, -1)
    experts = experts.int()
    if finished is not None:
        experts = torch.where(finished.bool().unsqueeze(-1), x.shape[-1], experts).int()
    count = math.prod(x.shape[:-1])
    rows = torch.arange(count * k, dtype=torch.int32, device=x.device).view(k, count).t()
    return _rounded(weights, x.dtype), experts, rows.reshape(experts.shape).contiguous()


def _transpose(x: Any, perm: list[int], require_contiguous: bool = True) -> Any:
    return x.permute(perm).contiguous()


def _format_cast(
    x: Any, acl_format: int, *, customize_dtype: Any = None, input_dtype: Any = None
) -> Any:
    """A copy: the emulated NPU has no private formats."""
    return x.clone()


def _get_npu_format(x: Any) -> int:
    return 2

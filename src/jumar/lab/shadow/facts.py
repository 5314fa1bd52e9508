"""What torch knows of an operator: whether it can be compared, and how much one element sums."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from jumar.operators.dispatcher import is_view

ROUGH = 2.0**-11
"""Unit roundoff of TF32 and HF32, which keep 10 bits of the fraction of float32."""


def not_compared(op: Any, leaves: list[Any]) -> str | None:
    """Why a call cannot be compared; None where it can."""
    import torch

    if is_view(op) or torch.Tag.inplace_view in op.tags:
        return "moves no numbers"
    if "empty" in op._schema.name:  # torch has no tag for it
        return "gives memory that is not written yet"
    if any(isinstance(leaf, torch.Generator) for leaf in leaves):
        return "draws random numbers"
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if not all(map(is_dense, tensors)):
        return "takes tensors that are not dense"
    return None


def is_dense(tensor: Any) -> bool:
    """Whether its numbers lie in memory one by one."""
    import torch

    return tensor.layout == torch.strided and not tensor.is_quantized


def may_draw(op: Any) -> bool:
    """Whether some calls of it draw random numbers: dropout does, attention without it does not."""
    import torch

    return torch.Tag.nondeterministic_seeded in op.tags


def arguments(op: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """The arguments that were given, with what the schema says of each."""
    for place, argument in enumerate(op._schema.arguments):
        if place < len(args):
            yield argument, args[place]
        elif argument.name in kwargs:
            yield argument, kwargs[argument.name]


def is_written(said: Any) -> bool:
    """Whether an argument, or what is returned, is written to, by what the schema says of it."""
    return bool(said.alias_info is not None and said.alias_info.is_write)


def written(op: Any, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that a call writes to."""
    from torch.utils._pytree import tree_leaves

    given = [value for said, value in arguments(op, args, kwargs) if is_written(said)]
    return [leaf for leaf in tree_leaves(given) if leaf is not None]


def outputs(op: Any, args: Any, kwargs: Any, result: Any) -> list[Any]:
    """What a call has made: the arguments that it wrote to, then its other results."""
    from torch.utils._pytree import tree_leaves

    returns = op._schema.returns
    results = result if len(returns) > 1 else [result]
    made = [one for said, one in zip(returns, results, strict=False) if not is_written(said)]
    fresh = [leaf for leaf in tree_leaves(made) if leaf is not None]
    return written(op, args, kwargs) + fresh


def returned(op: Any, args: Any, kwargs: Any, made: list[Any]) -> Any:
    """The result of a call that would have made these `outputs`."""
    wrote = written(op, args, kwargs)
    fresh = iter(made[len(wrote) :])
    results = [wrote.pop(0) if is_written(said) else next(fresh) for said in op._schema.returns]
    return tuple(results) if len(results) > 1 else next(iter(results), None)


def is_product(op: Any) -> bool:
    """Whether it multiplies and sums: torch counts its floating-point operations."""
    from torch.utils.flop_counter import flop_registry

    return op.overloadpacket in flop_registry


def terms(op: Any, args: Any, kwargs: Any, result: Any) -> int:
    """How many numbers are summed for one element of the result, or more.

    Exact for products, by torch's own count of operations; 1 for pointwise operators, by their tag;
    for the rest no more than a whole dimension, or what all inputs have for each output.
    """
    import torch
    from torch.utils._pytree import tree_leaves
    from torch.utils.flop_counter import flop_registry

    made = [one for one in tree_leaves(result) if isinstance(one, torch.Tensor) and one.numel()]
    if not made or torch.Tag.pointwise in op.tags:
        return 1
    if is_product(op):
        flops = flop_registry[op.overloadpacket](*args, **kwargs, out_val=result)
        return max(int(flops) // (2 * int(made[0].numel())), 1)
    given = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    least = min(one.numel() for one in made)
    sizes = [max([*one.shape, math.ceil(one.numel() / least)]) for one in given]
    return int(max([1, *sizes]))


def unit_roundoff(op: Any, kind: str, dtype: Any) -> float | None:
    """That of products which this device is set to compute in TF32 or HF32; else None."""
    import torch

    if dtype != torch.float32 or not is_product(op):
        return None
    module: Any = getattr(torch, kind, None)
    switches = {
        "cuda": [(torch.backends.cudnn, "allow_tf32"), (torch.backends.cuda.matmul, "allow_tf32")],
        "npu": [
            (getattr(module, "conv", None), "allow_hf32"),
            (getattr(module, "matmul", None), "allow_hf32"),
        ],
    }
    convolves = "conv" in op._schema.name
    where, name = switches.get(kind, [(None, ""), (None, "")])[0 if convolves else 1]
    return ROUGH if getattr(where, name, False) else None


def is_tie(op: Any, args: Any, kwargs: Any, one: Any, other: Any) -> bool:
    """Whether two answers in positions point at equal values: either is right then."""
    import torch

    given = {said.name: said.default_value for said in op._schema.arguments}
    given |= {said.name: value for said, value in arguments(op, args, kwargs)}
    floats = [
        value
        for value in given.values()
        if isinstance(value, torch.Tensor) and value.is_floating_point()
    ]
    if len(floats) != 1 or one.dtype != torch.int64 or one.shape != other.shape:
        return False
    source, dim = floats[0], given.get("dim", -1)
    if dim is None or not source.dim():
        source, dim = source.flatten(), 0  # of one number as of a vector
    if not isinstance(dim, int):
        return False  # what is found along several dimensions at once is no position
    if one.dim() == source.dim() - 1:
        one, other = one.unsqueeze(dim), other.unsqueeze(dim)
    if not all(_within(index, source, dim) for index in (one, other)):
        return False
    return bool(torch.equal(source.gather(dim, one), source.gather(dim, other)))


def _within(index: Any, source: Any, dim: int) -> bool:
    """Whether `source` can be gathered from by these positions."""
    fits = index.dim() == source.dim() and all(
        a <= b or place == dim % source.dim()
        for place, (a, b) in enumerate(zip(index.shape, source.shape, strict=True))
    )
    return bool(fits and ((index >= 0) & (index < source.shape[dim])).all())

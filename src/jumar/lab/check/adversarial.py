"""Inputs that break kernels: rows of data, each makes a hard call of an ordinary one.

Nothing here knows an operator. A row changes sizes or the layout of a call that is known to work;
whether what comes out is a legal call, the CPU decides. A size that occurs in several arguments
means the same dimension in all of them (`k` of a product), so all are changed together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.lab.check.calls import Call, written

if TYPE_CHECKING:
    from torch import Tensor

VOCABULARY = 151_936
"""Rows of the embedding of Qwen2 and Qwen3: where grids and on-chip buffers overflow."""
SMALL = 4
"""Other dimensions beside the vocabulary are cut to this."""
LARGEST = 1 << 23
"""Elements that one tensor may have."""
MARGIN = 8
"""Elements of poison on either side of a tensor."""


@dataclass(frozen=True)
class Row:
    """One way of making a call hard."""

    name: str
    make: Callable[[Any, Call], Iterable[Call]]
    vocabulary: bool = False


def hardened(op: Any, calls: list[Call], *, vocabulary: bool) -> Iterator[tuple[str, Call]]:
    """The rows' calls with their names, made of the call that lets them change most."""
    bases = [call for call in calls if any(one.numel() for one in call.tensors())]
    if not bases:
        return
    base = max(bases, key=_promising)
    for row in ROWS:
        if row.vocabulary and not vocabulary:
            continue
        for made in row.make(op, base):
            yield row.name, made


def _promising(call: Call) -> tuple[int, bool, bool]:
    """How much the rows can change: two dimensions, none of size 1; arguments of one shape."""
    shapes = call.shapes()
    return (
        min(_leading(call).ndim, 2),
        all(shape and min(shape) > 1 for shape in shapes),
        len(shapes) > 1 and len(set(shapes)) == 1,
    )


def tiled(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A contiguous tensor of another shape with the same values, over and over: what is legal for
    the operator (positive, an index, a probability) stays so.
    """
    count = math.prod(shape)
    values = tensor.flatten()
    if not values.numel():
        return tensor.new_ones(shape)
    times = -(-count // values.numel())
    return values.repeat(times)[:count].reshape(shape).clone()


def poisoned(count: int, dtype: Any) -> Tensor:
    """A buffer of what must never be read into an answer or be written to."""
    import torch

    if dtype.is_floating_point or dtype.is_complex:
        return torch.full((count,), float("nan"), dtype=dtype)
    if dtype == torch.bool:
        return torch.ones(count, dtype=dtype)
    return torch.full((count,), torch.iinfo(dtype).max, dtype=dtype)


def padded(tensor: Tensor) -> Tensor:
    """The tensor as a view into a larger, poisoned buffer."""
    base = poisoned(tensor.numel() + 2 * MARGIN, tensor.dtype)
    view = base[MARGIN : MARGIN + tensor.numel()].view(tensor.shape)
    view.copy_(tensor)
    return view


# ---- sizes ---------------------------------------------------------------------------------------


def _size(place: int, new: int) -> Callable[[Any, Call], Iterable[Call]]:
    """The first (0) or last (-1) dimension of the largest tensor becomes `new`.

    Once wherever that size occurs (`k` of a product), and once at that place of each tensor only.
    """

    def make(_op: Any, call: Call) -> Iterator[Call]:
        leading = _leading(call)
        if leading.ndim and leading.shape[place] != new:
            sizes = {leading.shape[place]: new}
            yield from with_sizes(call, sizes)
            if _square(leading) and _of_one_rank(call):
                yield from with_sizes(call, sizes, place)

    return make


def _vocabulary(_op: Any, call: Call) -> Iterator[Call]:
    leading = _leading(call)
    if not leading.ndim:
        return
    last = leading.shape[-1]
    for small in with_sizes(call, {s: SMALL for s in _all_sizes(call) if s > SMALL and s != last}):
        place = -1 if _square(leading) and _of_one_rank(call) else None
        yield from with_sizes(small, {last: VOCABULARY}, place)


def with_sizes(call: Call, new: dict[int, int], place: int | None = None) -> Iterator[Call]:
    """The call with every size that is a key of `new` replaced, in tensors and in lists of sizes;
    with `place` only at that dimension. None where a tensor could not be held.
    """
    from torch.utils._pytree import tree_map_only

    def fresh(shape: tuple[int, ...]) -> tuple[int, ...]:
        places = range(len(shape)) if place is None else range(len(shape))[place:][:1]
        return tuple(new.get(n, n) if at in places else n for at, n in enumerate(shape))

    if any(math.prod(fresh(shape)) > LARGEST for shape in call.shapes()):
        return
    changed = call.replaced(lambda _, tensor: tiled(tensor, fresh(tuple(tensor.shape))))
    args, kwargs = tree_map_only(
        list, lambda one: _sizes(one, new), (changed.args, changed.kwargs), is_leaf=_is_sizes
    )
    yield Call(args, kwargs)


def _all_sizes(call: Call) -> set[int]:
    return {size for shape in call.shapes() for size in shape}


def _of_one_rank(call: Call) -> bool:
    """Whether a place means the same in all tensors. Of a weight per channel it does not, and some
    kernels of the CPU then read past its end.
    """
    return len({len(shape) for shape in call.shapes()}) == 1


def _square(tensor: Tensor) -> bool:
    return len(set(tensor.shape)) < len(tensor.shape)


def _is_sizes(value: Any) -> bool:
    """A list of whole numbers is one of sizes where it holds no flag, dimension or padding."""
    return isinstance(value, list) and bool(value) and all(type(one) is int for one in value)


def _sizes(value: list[Any], new: dict[int, int]) -> list[Any]:
    return [new.get(one, one) if one > 1 else one for one in value]


def _scalar(_op: Any, call: Call) -> Iterator[Call]:
    if _leading(call).ndim:
        yield call.replaced(lambda _, tensor: tiled(tensor, ()))


# ---- layouts -------------------------------------------------------------------------------------


def _laid_out(lay: Callable[[Tensor], Tensor]) -> Callable[[Any, Call], Iterable[Call]]:
    def make(_op: Any, call: Call) -> Iterator[Call]:
        yield call.replaced(lambda _, tensor: lay(tensor) if tensor.numel() else tensor)

    return make


def _transposed(tensor: Tensor) -> Tensor:
    if tensor.ndim < 2:
        return tensor
    return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)


def _strided(tensor: Tensor) -> Tensor:
    if not tensor.ndim:
        return tensor
    shape = (*tensor.shape[:-1], 2 * tensor.shape[-1])
    view = poisoned(2 * tensor.numel(), tensor.dtype).view(shape)[..., ::2]
    view.copy_(tensor)
    return view


def _expanded(op: Any, call: Call) -> Iterator[Call]:
    """Every tensor that is only read repeats its first row without holding it twice."""
    kept = {id(one) for one in written(op, call)}

    def one(_: int, tensor: Tensor) -> Tensor:
        if not tensor.ndim or not tensor.numel() or id(tensor) in kept:
            return tensor
        return tensor[:1].clone().expand(tensor.shape)

    yield call.replaced(one)


def _aliased(op: Any, call: Call) -> Iterator[Call]:
    """Arguments of one shape and dtype become one tensor; outputs stay apart, as torch asks."""
    from torch.utils._pytree import tree_leaves

    outputs = [call.kwargs.get(one.name) for one in op._schema.arguments if one.is_out]
    kept = {id(leaf) for leaf in tree_leaves(outputs)}
    first: dict[Any, Tensor] = {}

    def one(_: int, tensor: Tensor) -> Tensor:
        form = (tensor.shape, tensor.dtype)
        return tensor if id(tensor) in kept else first.setdefault(form, tensor)

    yield call.replaced(one)


def _leading(call: Call) -> Tensor:
    """The tensor whose dimensions are changed: of the highest rank, the first of these."""
    return max(call.tensors(), key=lambda one: one.ndim)


ROWS = (
    Row("no rows", _size(0, 0)),
    Row("no columns", _size(-1, 0)),
    Row("one row", _size(0, 1)),
    Row("127 columns", _size(-1, 127)),
    Row("128 columns", _size(-1, 128)),
    Row("129 columns", _size(-1, 129)),
    Row("vocabulary", _vocabulary, vocabulary=True),
    Row("scalar", _scalar),
    Row("transposed", _laid_out(_transposed)),
    Row("strided", _laid_out(_strided)),
    Row("in poisoned padding", _laid_out(padded)),
    Row("expanded", _expanded),
    Row("aliased", _aliased),
)
"""In this order; sizes of 2^n - 1, 2^n and 2^n + 1 stand around a block's edge."""

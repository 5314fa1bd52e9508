"""A call of an operator as data: tensors keep their layout, what they share and what lies around.

Every copy is made storage by storage: a view stays a view of its buffer, two arguments that share
memory share the copy's, an expanded dimension stays expanded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jumar.lab.shadow import facts

if TYPE_CHECKING:
    from torch import Tensor

Convert = Callable[["Tensor"], "Tensor"]


@dataclass
class Call:
    """The arguments of an overload."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def flats(self) -> list[Tensor]:
        """The storages of the tensors, each once, as vectors."""
        return list({_storage(one): _flat(one) for one in self.tensors()}.values())

    def tensors(self) -> list[Tensor]:
        """The tensor arguments in order, those of lists too."""
        import torch
        from torch.utils._pytree import tree_leaves

        leaves = tree_leaves((self.args, self.kwargs))
        return [one for one in leaves if isinstance(one, torch.Tensor)]

    def leaves(self) -> list[Any]:
        """All arguments."""
        from torch.utils._pytree import tree_leaves

        found: list[Any] = tree_leaves((self.args, self.kwargs))
        return found

    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the tensor arguments."""
        return tuple(tuple(one.shape) for one in self.tensors())

    def moved(self, convert: Convert, other: Convert | None = None) -> Call:
        """The same call over storages that went through `convert`; `other` takes all else."""
        import torch
        from torch.utils._pytree import tree_map

        fresh: dict[Any, Tensor] = {}

        def one(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf if other is None else other(leaf)
            key = _storage(leaf)
            if key not in fresh:
                fresh[key] = convert(_flat(leaf))
            return fresh[key].as_strided(leaf.shape, leaf.stride(), leaf.storage_offset())

        args, kwargs = tree_map(one, (self.args, self.kwargs))
        return Call(args, kwargs)

    def cloned(self) -> Call:
        """A copy that can be written to."""
        return self.moved(lambda flat: flat.clone())

    def on(self, device: str) -> Call:
        """A copy on `device`; an argument that names the CPU names `device` there."""
        import torch

        def renamed(leaf: Any) -> Any:
            return torch.device(device) if isinstance(leaf, torch.device) else leaf

        return self.moved(lambda flat: flat.to(device, copy=True), renamed)

    def replaced(self, change: Callable[[int, Tensor], Tensor]) -> Call:
        """The same call with each tensor replaced by what `change` makes of its place and it."""
        import torch
        from torch.utils._pytree import tree_map_only

        places = iter(range(len(self.tensors())))
        args, kwargs = tree_map_only(
            torch.Tensor, lambda tensor: change(next(places), tensor), (self.args, self.kwargs)
        )
        return Call(args, kwargs)


@dataclass(frozen=True)
class Answer:
    """What a call gave, and the call, whose arguments hold what was written to them."""

    results: list[Any]
    call: Call


def answered(function: Callable[..., Any], call: Call) -> Answer:
    """Call, without gradients; tensors of the results are those of the device."""
    import torch
    from torch.utils._pytree import tree_leaves

    with torch.no_grad():
        results = function(*call.args, **call.kwargs)
    return Answer(tree_leaves(results), call)


def written(op: Any, call: Call) -> list[Tensor]:
    """The arguments that `op` writes to, by its schema."""
    return facts.written(op, call.args, call.kwargs)


def beside(call: Call, tensors: list[Tensor]) -> list[Tensor]:
    """For each storage of the call the mask of what none of `tensors` covers."""
    import torch

    flats = call.flats()
    masks = [torch.ones(flat.numel(), dtype=torch.bool) for flat in flats]
    places = {_storage(flat): number for number, flat in enumerate(flats)}
    for one in tensors:
        mask = masks[places[_storage(one)]]
        mask.as_strided(one.shape, one.stride(), one.storage_offset()).fill_(False)
    return masks


def signature(call: Call) -> str:
    """What tells two calls apart, values of tensors aside: sizes, layout, sharing, settings."""
    import torch

    shared: dict[Any, int] = {}

    def shown(leaf: Any) -> str:
        if not isinstance(leaf, torch.Tensor):
            return repr(leaf)
        place = shared.setdefault(_storage(leaf), len(shared))
        layout = f"{leaf.stride()}+{leaf.storage_offset()} of {place}"
        return f"{leaf.dtype}{tuple(leaf.shape)} {layout}"

    return f"{list(call.kwargs)} {' '.join(map(shown, call.leaves()))}"


def plain(call: Call) -> bool:
    """Whether every tensor is a dense one on the CPU, and nothing is drawn from a generator."""
    import torch

    return all(
        one.layout == torch.strided
        and one.device.type == "cpu"
        and not one.is_quantized
        and not one.is_conj()
        and not one.is_neg()
        for one in call.tensors()
    ) and not any(isinstance(one, torch.Generator) for one in call.leaves())


def _storage(tensor: Tensor) -> Any:
    return (tensor.untyped_storage()._cdata, tensor.dtype)


def _flat(tensor: Tensor) -> Tensor:
    """The whole storage of a tensor as a vector of its dtype."""
    import torch

    storage = tensor.untyped_storage()
    count = storage.nbytes() // tensor.dtype.itemsize
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(storage, 0, (count,), (1,))

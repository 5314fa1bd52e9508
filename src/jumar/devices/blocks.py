"""A weight in oneDNN's blocks that models can read: some use the weight of a layer themselves."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

_THE_WEIGHT_ITSELF = ("__get__", "detach")
"""What these give (`weight.data`) may be written to: it stays in blocks, and raises."""


class Blocks(torch.nn.Parameter):  # type: ignore[misc]
    """What oneDNN's tensors cannot do is done with a plain copy; the weight is never written to."""

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            try:
                found = function(*args, **kwargs or {})
            except (RuntimeError, TypeError):
                copies: list[Tensor] = []
                copied = tree_map(lambda one: _copied(one, copies), (args, kwargs or {}))
                found = function(*copied[0], **copied[1])
                if found is None or any(found is one for one in copies):
                    raise  # it wrote to a copy
            if function.__name__ in _THE_WEIGHT_ITSELF or isinstance(found, Blocks):
                return found
            return _plain(found)


def _plain(found: Any) -> Any:
    blocked = isinstance(found, Tensor) and found.layout != torch.strided
    return found.to_dense() if blocked else found


def _copied(one: Any, copies: list[Tensor]) -> Any:
    if not isinstance(one, Blocks):
        return one
    copies.append(one.detach().to_dense())
    return copies[-1]

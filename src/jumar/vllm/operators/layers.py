"""vLLM's layers that hold an implementation of Jumar's: subclasses, registered out of tree.

vLLM makes ours where a model asks for its own, by the name of the class; so every class whose
computation is the same has to be named, subclasses too (`Llama3RotaryEmbedding`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch import Tensor
from vllm.model_executor.custom_op import CustomOp, op_registry_oot
from vllm.model_executor.layers import activation, layernorm
from vllm.model_executor.layers import rotary_embedding as rotary

from jumar.contracts.errors import InvalidValue
from jumar.vllm.operators.process import here, name_of


class Holder(torch.nn.Module):
    """A layer that holds the implementation of one operator from the time it is built."""

    operator: ClassVar[str]
    implementation: Callable[..., Any]

    def hold(self, dtype: torch.dtype | None = None) -> None:
        """Take what was decided, unless vLLM's configuration leaves this layer to its own code."""
        if self._forward_method == self.forward_oot:
            self.implementation = here().hold(self.operator, name_of(dtype) if dtype else None)
        else:
            here().own[self.operator] = "vLLM's custom_ops leave it to vLLM's own code"


class SiluAndMul(Holder, activation.SiluAndMul):
    """`silu(a) * b`, a and b the halves of the last axis."""

    operator = "silu_and_mul"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hold()

    def forward_oot(self, x: Tensor) -> Tensor:
        """See `jumar.operators.layers.activations`."""
        return self.implementation(x)


class GeluAndMul(Holder, activation.GeluAndMul):
    """`gelu(a) * b`, a and b the halves of the last axis."""

    operator = "gelu_and_mul"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hold()

    def forward_oot(self, x: Tensor) -> Tensor:
        """See `jumar.operators.layers.activations`."""
        return self.implementation(x, self.approximate)


class RMSNorm(Holder, layernorm.RMSNorm):
    """Root mean square normalisation, of the sum with a residual where there is one.

    Without weight, with one of another dtype, or over a part of the axis, it is vLLM's own: the
    operator has none of these.
    """

    operator = "rms_norm"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        whole = self.has_weight and self.variance_size_override is None
        if whole and self.weight.dtype == torch.get_default_dtype():
            self.hold(self.weight.dtype)
        else:
            self._forward_method = self.forward_native

    def forward_oot(self, x: Tensor, residual: Tensor | None = None) -> Any:
        """See `jumar.operators.layers.norms`."""
        return self.implementation(x, self.weight, self.variance_epsilon, residual)


class Rotary(Holder):
    """Rotary positions by the cosines and sines that a class of vLLM has computed."""

    operator = "rotary_embedding"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.hold(self.dtype)

    def forward_oot(
        self, positions: Tensor, query: Tensor, key: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        """`query`, `key` (tokens, heads * head size); no key where layers share them."""
        cos_sin = self._match_cos_sin_cache_dtype(query).index_select(0, positions.flatten())
        return self._turned(cos_sin, query, key)

    def _turned(
        self, cos_sin: Tensor, query: Tensor, key: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        cos, sin = cos_sin.chunk(2, -1)
        heads = (cos_sin.shape[0], -1, self.head_size)
        turned, turned_key = self.implementation(
            query.view(heads),
            (query if key is None else key).view(heads),
            cos,
            sin,
            not self.is_neox_style,
        )
        if key is None:
            return turned.reshape(query.shape), None
        return turned.reshape(query.shape), turned_key.reshape(key.shape)


class MultimodalRotary(Rotary):
    """The same with positions on three axes (time, height, width), each for some of the pairs."""

    axes: Tensor
    columns: Tensor

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.mrope_section:
            of_pairs = axes(self.mrope_section, interleaved=self.mrope_interleaved)
            both = torch.tensor(of_pairs).repeat(2)  # of cosines, then of sines
            self.register_buffer("axes", both, persistent=False)
            self.register_buffer("columns", torch.arange(len(both)), persistent=False)

    def forward_oot(
        self,
        positions: Tensor,
        query: Tensor,
        key: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """`positions` (tokens) of text, or (3, tokens)."""
        cache = self._match_cos_sin_cache_dtype(query)
        if positions.ndim == 1:
            return self._turned(cache.index_select(0, positions), query, key)
        return self._turned(cache[positions[self.axes].T, self.columns], query, key)


def axes(section: list[int], *, interleaved: bool) -> list[int]:
    """Which axis turns each pair of a head: `section` pairs each, in blocks or taking turns.

    Taking turns, height and width have every third pair until they have their share; time has the
    rest.

    >>> axes([2, 1, 1], interleaved=False)
    [0, 0, 1, 2]
    >>> axes([2, 1, 1], interleaved=True)
    [0, 1, 2, 0]
    """
    if not interleaved:
        return [axis for axis, pairs in enumerate(section) for _ in range(pairs)]
    return [
        pair % 3 if pair < 3 * section[pair % 3] else 0  # time, 0, is its own remainder
        for pair in range(sum(section))
    ]


def register() -> None:
    """Let vLLM make these where a model asks for its own.

    Raises:
        InvalidValue: another plugin replaces one of them.
    """
    for one in (SiluAndMul, GeluAndMul, RMSNorm):
        replace(one.__bases__[1], one)
    for in_tree in [*_same_forward(rotary.RotaryEmbedding)]:  # before ours are among them
        replace(in_tree, type(in_tree.__name__, (Rotary, in_tree), {"__module__": __name__}))
    for in_tree in [*_same_forward(rotary.MRotaryEmbedding)]:
        ours = type(in_tree.__name__, (MultimodalRotary, in_tree), {"__module__": __name__})
        replace(in_tree, ours)


def replace(in_tree: type[CustomOp], ours: type[CustomOp]) -> None:
    """Register `ours` for `in_tree`; under its name in vLLM's `custom_ops` still."""
    theirs = op_registry_oot.get(in_tree.__name__)
    if theirs is not None and theirs.__module__ == ours.__module__:
        return
    if theirs is not None:
        raise InvalidValue(
            f"{theirs.__module__} replaces vLLM's {in_tree.__name__} already.",
            hint="VLLM_PLUGINS says which plugins load.",
            param="VLLM_PLUGINS",
        )
    in_tree.register_oot(ours)
    ours.name = in_tree.name


def _same_forward(first: type[CustomOp]) -> Iterator[type[CustomOp]]:
    """The class and those of vLLM's subclasses that compute as it does."""
    yield first
    for one in first.__subclasses__():
        if issubclass(one, Holder):
            continue
        if one.forward_native is first.forward_native and one.forward is first.forward:
            yield from _same_forward(one)

"""Layer operators: what models ask for by name, and providers compute.

>>> from jumar.operators.layers import layer_operators
>>> sorted(layer_operators())
['attention_backend', 'fused_moe', 'gelu_and_mul', 'moe_align_block_size', 'moe_sum', 'rms_norm', \
'rotary_embedding', 'silu_and_mul', 'topk_softmax']
>>> layer_operators()["silu_and_mul"].signature
<Signature (x: 'Any') -> 'Any'>
"""

from __future__ import annotations

from functools import cache
from importlib import import_module

from jumar.contracts.errors import InvalidValue, did_you_mean
from jumar.operators.layers.base import Case, Draw, LayerOperator, Tolerance

__all__ = ["Case", "Draw", "LayerOperator", "Tolerance", "layer_operator", "layer_operators"]

MODULES = ("activations", "attention", "experts", "norms", "positions")


@cache
def layer_operators() -> dict[str, LayerOperator]:
    """All layer operators by name."""
    found = [one for module in MODULES for one in import_module(f"{__name__}.{module}").OPERATORS]
    return {one.name: one for one in found}


def layer_operator(name: str) -> LayerOperator:
    """The layer operator of that name.

    Raises:
        InvalidValue: there is none, with the nearest.
    """
    known = layer_operators()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidValue(f"There is no layer operator {name!r}.", hint=hint, param="operator")
    return known[name]

"""Jumar's layer operators beside those that torch's dispatcher knows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue


def with_layers(catalogue: Catalogue, *, usable_only: bool) -> Catalogue:
    """The catalogue, with the layer operators and the providers that have them.

    `usable_only` leaves out providers that cannot be used in this process: for a decision, not for
    a lint.

    Raises:
        PluginFailed: an installed provider cannot be imported.
    """
    from jumar.operators.catalogue.base import merged

    return merged([catalogue, _layers(usable_only)], live=catalogue.live)


@cache
def _layers(usable_only: bool) -> Catalogue:
    """Looked up once in a process."""
    from jumar.operators.catalogue.base import Catalogue, Implementation, Operator
    from jumar.operators.layers import layer_operators
    from jumar.operators.providers import provider, providers

    found = []
    for name, plugin in providers().items():
        here = provider(name)
        if not (usable_only and here.unavailable()):
            found += [Implementation(op, name, "", "layer", plugin.value) for op in here.layers()]
    operators = {name: Operator(name, name) for name in layer_operators()}
    return Catalogue({}, operators, tuple(found))

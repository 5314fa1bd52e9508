"""Jumar's layer operators beside those that torch's dispatcher knows."""

from __future__ import annotations

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
    from jumar.operators.catalogue.base import Catalogue, Implementation, Operator, merged
    from jumar.operators.layers import layer_operators
    from jumar.operators.providers import provider, providers

    found = [
        Implementation(operator, name, "", "layer", plugin.value)
        for name, plugin in providers().items()
        if not (usable_only and provider(name).unavailable())
        for operator in provider(name).layers()
    ]
    operators = {name: Operator(name, name) for name in layer_operators()}
    return merged([catalogue, Catalogue({}, operators, tuple(found))], live=catalogue.live)

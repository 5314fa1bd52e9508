"""Jumar's layer operators, and what its providers have, beside what torch's dispatcher knows."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.operators.catalogue.base import Catalogue, Implementation

OVERRIDE = "override"
"""In place of a dispatch key: Jumar registers the function at the device's own."""


def with_layers(catalogue: Catalogue, *, usable_only: bool) -> Catalogue:
    """The catalogue, with the layer operators and what installed providers have.

    `usable_only` is for a decision, not for a lint: it leaves out providers that cannot be used in
    this process, and has their functions for torch's operators, but for those that the catalogue
    knows from their source.

    Raises:
        PluginFailed: an installed provider cannot be imported.
    """
    from jumar.operators.catalogue.base import Catalogue, Operator, merged
    from jumar.operators.layers import layer_operators

    known = {one.provider for one in catalogue.implementations}
    found = [
        one for one in _provided(usable_only) if one.key == "layer" or one.provider not in known
    ]
    operators = {name: Operator(name, name) for name in layer_operators()}
    return merged([catalogue, Catalogue({}, operators, tuple(found))], live=catalogue.live)


@cache
def _provided(usable_only: bool) -> tuple[Implementation, ...]:
    """Layers; for a decision functions too. Looked up once in a process."""
    from jumar.operators.catalogue.base import Implementation
    from jumar.operators.providers import provider, providers

    found = []
    for name, plugin in providers().items():
        here = provider(name)
        if usable_only and here.unavailable():
            continue
        keys = dict.fromkeys(here.layers(), "layer")
        if usable_only:
            keys |= dict.fromkeys(here.functions(), OVERRIDE)
        found += [Implementation(op, name, "", key, plugin.value) for op, key in keys.items()]
    return tuple(found)

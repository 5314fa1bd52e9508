"""Who computes operators: built in, or another distribution's (`jumar.operator_providers`).

>>> from jumar.operators.providers import provider
>>> provider("reference").layers()["silu_and_mul"].make()
<function silu_and_mul at ...>
"""

from __future__ import annotations

from jumar.contracts.errors import InvalidValue, did_you_mean
from jumar.operators.providers.base import Implementation, Provider, unfit
from jumar.plugins import Plugin, installed, load

__all__ = ["Implementation", "Provider", "provider", "providers", "unfit"]

GROUP = "jumar.operator_providers"


def providers() -> dict[str, Plugin]:
    """The providers that are installed, by name; none is imported for that."""
    return {plugin.name: plugin for plugin in installed(GROUP)}


def provider(name: str) -> Provider:
    """The provider of that name.

    Raises:
        InvalidValue: there is none, with the nearest.
        PluginFailed: it cannot be imported.
    """
    known = providers()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidValue(f"There is no provider {name!r}.", hint=hint, param="providers")
    made: Provider = load(known[name])()
    return made

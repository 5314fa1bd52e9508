"""What a machine is: its accelerators, drivers, files, environment and packages, live or recorded.

>>> from jumar.host import open_host
>>> facts = open_host(None)              # this machine
>>> facts = open_host("broken.tar.gz")   # one that `jumar host snapshot` recorded

The layer below `jumar.devices`: it knows no torch, opens no device, and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jumar.host.facts import HostFacts
    from jumar.host.read import open_host, read_host
    from jumar.host.source import HostSource, open_source

__all__ = ["HostFacts", "HostSource", "open_host", "open_source", "read_host"]

_HOMES = {
    "HostFacts": "facts",
    "HostSource": "source",
    "open_host": "read",
    "open_source": "source",
    "read_host": "read",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)

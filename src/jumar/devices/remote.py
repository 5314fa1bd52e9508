"""Where models run that only a server knows: no device of this machine, and nothing to measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jumar.devices.base import Device
from jumar.devices.graphs import Graph
from jumar.devices.options import without_effect


class Remote:
    """A server's own devices. No caller names it: the catalog does, for models of a server."""

    kind = "remote"
    backend = "remote"

    def unavailable(self) -> str | None:
        """Never, as far as this machine can tell."""
        return None

    def device_class(self) -> str:
        """`remote`: what answered is for the server to say."""
        return "remote"

    def devices(self) -> list[Device]:
        """One, whose memory nobody here can see."""
        return [Device("remote", 0, "a server")]

    def dtypes(self, index: int) -> tuple[str, ...]:
        """The server chooses."""
        return ()

    def configure(self, config: Mapping[str, Any]) -> list[str]:
        """There is nothing to set."""
        return without_effect(config, "remote")

    def synchronize(self, index: int) -> None:
        """An answer that is here is complete."""

    def reset_peak(self, index: int) -> None:
        """Nothing is measured."""

    def peak_mb(self, index: int) -> float | None:
        """None: the memory is the server's."""
        return None

    def empty_cache(self, index: int) -> None:
        """Nothing is held."""

    def graphs(self) -> Sequence[Graph]:
        """None: no module is here."""
        return ()

    def compiles_unasked(self) -> bool:
        """No."""
        return False

    def fingerprint(self) -> dict[str, str]:
        """Nothing that the answer depends on is known here."""
        return {}

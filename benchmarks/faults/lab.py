"""What all cases share (zygote, catalogue, fingerprint), and children whose card has faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from benchmarks.faults import spoils
from benchmarks.faults.base import CARD, LIMIT
from jumar.isolate import Child, Zygote
from jumar.lab.check.running import PRELOAD

if TYPE_CHECKING:
    from jumar.operators.catalogue import Catalogue

MODULES = (*PRELOAD, "torch._dynamo", "benchmarks.faults.programs")


class Lab:
    """Opened once for a bench."""

    def __init__(self, zygote: Zygote) -> None:
        self.zygote = zygote

    def with_faults(self, faults: Sequence[Mapping[str, Any]]) -> Faulty:
        """Where children come from whose card has these faults."""
        return Faulty(self.zygote, faults)

    def within(self, function: Callable[..., Any], *arguments: Any, faults: Any = ()) -> Any:
        """What a function gives in a child of its own."""
        with self.with_faults(faults).spawn(_once, function, arguments) as child:
            child.ready(deadline=120.0).result()
            return child.call(None, deadline=120.0).result()

    @cached_property
    def fingerprint(self) -> dict[str, str]:
        """Of the emulated card."""
        from jumar.lab.check.implementations import fingerprint

        return fingerprint(CARD)

    @cached_property
    def catalogue(self) -> Catalogue:
        """This torch, and FlagGems as it was recorded."""
        from jumar.operators.catalogue import opened, shipped

        flag_gems = [name for name in shipped() if name.startswith("flag_gems")]
        return opened(["live", *flag_gems])

    @cached_property
    def samples(self) -> dict[str, tuple[str, ...]]:
        """Where the check finds inputs, by operator."""
        from jumar.lab.check import Target
        from jumar.lab.check.running import Laboratory

        return Laboratory(Target("device", CARD), self.zygote, limit=LIMIT).index()


class Faulty:
    """A zygote, for those who spawn from it, whose children set faults before all else."""

    def __init__(self, zygote: Zygote, faults: Sequence[Mapping[str, Any]]) -> None:
        self._zygote, self._faults = zygote, list(faults)

    def spawn(self, make: Callable[..., Any], *arguments: Any, **options: Any) -> Child:
        """As `Zygote.spawn`."""
        return self._zygote.spawn(_faulty, self._faults, make, arguments, **options)


def _faulty(
    faults: list[Mapping[str, Any]], make: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    spoils.order(faults)
    return make(*arguments)


def _once(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[[None], Any]:
    return lambda _: function(*arguments)

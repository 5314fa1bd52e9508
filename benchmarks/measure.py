"""Two things in turn, several times: the median of each and of the ratio pair by pair."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Clock = Callable[[], float]


@dataclass(frozen=True)
class Pair:
    """Seconds per call of ours and of the peer, and how many pairs were measured."""

    name: str
    ours: list[float]
    peer: list[float]

    @property
    def ratio(self) -> float:
        """Median over pairs of ours / peer: steady where the machine's speed drifts."""
        return statistics.median(a / b for a, b in zip(self.ours, self.peer, strict=True))

    def row(self) -> str:
        """One line of the table, times in milliseconds."""
        ours, peer = statistics.median(self.ours) * 1e3, statistics.median(self.peer) * 1e3
        return (
            f"{self.name:<44}{ours:>10.2f}{peer:>10.2f}{self.ratio:>9.3f}   {len(self.ours)} pairs"
        )


HEADER = f"{'(CPU time, ms)':<44}{'jumar':>10}{'bare':>10}{'ratio':>9}"


def in_turn(
    name: str,
    ours: Callable[[], object],
    peer: Callable[[], object],
    *,
    pairs: int = 15,
    clock: Clock = time.process_time,
) -> Pair:
    """Call both once to warm up, then `pairs` times in turn, each first every other time.

    The clock counts CPU time of all threads of this process: other programs on the machine
    change it little.
    """
    ours(), peer()
    times: dict[str, list[float]] = {"ours": [], "peer": []}
    for number in range(pairs):
        order = [("ours", ours), ("peer", peer)]
        for who, call in order if number % 2 else reversed(order):
            begun = clock()
            call()
            times[who].append(clock() - begun)
    return Pair(name, times["ours"], times["peer"])

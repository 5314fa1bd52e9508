"""How a model is served, and what it has to pass before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from jumar.contracts.errors import ParityFailed
from jumar.contracts.results import Parity
from jumar.engine.queue import Batching
from jumar.engine.watched import WatchedModel

Prove = Callable[[WatchedModel], Parity]
"""Asks a loaded model its golden requests; raises ParityFailed, or gives what it found."""


@dataclass(frozen=True)
class Service:
    """How a model is served.

    Args:
        workers: Processes, each with the model.
        queue: Requests that may wait; one more is refused.
        batching: How much of equal config is answered together (encoders).
        require_verified: A model without goldens of this kind of device is not ready either.
        heartbeat, load_heartbeat: Silences that are a hang, in seconds; None: a worker's own.
    """

    workers: int = 1
    queue: int = 256
    batching: Batching = field(default_factory=Batching)
    require_verified: bool = False
    heartbeat: float | None = None
    load_heartbeat: float | None = None

    def judged(self, parity: Parity) -> Parity:
        """What a prover found, where a model may answer with that.

        Raises:
            ParityFailed: an answer is wrong, or there are no goldens and they are required.
        """
        if parity.status == "failed":
            raise ParityFailed(
                f"{parity.checked - parity.matched} of {parity.checked} golden answers are wrong."
            )
        if parity.status != "matched" and self.require_verified:
            raise ParityFailed(
                "There are no golden answers of this kind of device.",
                hint="jumar golden record MODEL --device …",
            )
        return parity

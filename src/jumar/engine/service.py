"""How a model is served, and what it has to pass before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Union

from jumar.catalog.manifest import TaskSpec
from jumar.contracts.errors import InvalidValue, ParityFailed
from jumar.contracts.results import Parity
from jumar.engine.inline import InlineModel
from jumar.engine.queue import Batching
from jumar.engine.watched import WatchedModel

Model = Union[WatchedModel, InlineModel]  # noqa: UP007  (an object at run time on 3.10 too)
"""A worker of a served model, in a process of its own or in the server's."""

Prove = Callable[[Model], Parity]
"""Asks a loaded model its golden requests; raises ParityFailed, or gives what it found."""


@dataclass(frozen=True)
class Service:
    """How a model is served.

    Args:
        workers: Processes, each with the model.
        queue: Requests that may wait; one more is refused.
        batching: How much of equal config is answered together: texts, pictures.
        results: Texts whose results are kept, so that they are not computed twice; 0: none.
        require_verified: A model without goldens of this kind of device is not ready either.
        heartbeat, load_heartbeat: Silences that are a hang, in seconds; None: a worker's own.
        in_process: The one worker is a thread of this process, and no process of its own.

    Raises:
        InvalidValue: `in_process` together with what needs processes.
    """

    workers: int = 1
    queue: int = 256
    batching: Batching = field(default_factory=Batching)
    results: int = 16_384
    require_verified: bool = False
    heartbeat: float | None = None
    load_heartbeat: float | None = None
    in_process: bool = False

    def __post_init__(self) -> None:
        needs = {"workers": self.workers > 1, "heartbeat": self.heartbeat is not None}
        needs["load_heartbeat"] = self.load_heartbeat is not None
        for name in (name for name, needed in needs.items() if needed and self.in_process):
            raise InvalidValue(
                f"{name} needs workers in processes of their own, and in_process has none.",
                hint="Leave one of the two out.",
                param=name,
            )

    def batching_of(self, spec: TaskSpec) -> Batching:
        """How much of such a task is answered together: where it draws, so many pictures."""
        if "num_inference_steps" not in spec.config:
            return self.batching
        pictures = self.batching.pictures or self.batching.most
        return replace(self.batching, most=min(self.batching.most, pictures), budget=pictures)

    @property
    def execution_mode(self) -> str:
        """As reports have it."""
        return "inline" if self.in_process else "isolated"

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

"""A model in the server's own process: no child that could die alone, and none to talk to.

What aborts there ends the server, what hangs there is never ended, and a computation that keeps the
interpreter's lock keeps all callers waiting. Reports and cards say `inline`.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import JumarError, NotReady
from jumar.contracts.results import GenerateResult
from jumar.devices import Placement
from jumar.engine.placed import PlacedModel
from jumar.engine.record import Owed, typed
from jumar.engine.seat import seat_for
from jumar.engine.steps import load_model
from jumar.engine.visit import Visit
from jumar.runtime.families import family_of
from jumar.runtime.run import Listener, Run

if TYPE_CHECKING:
    import numpy as np


class InlineModel:
    """The face of a `WatchedModel`, without the process."""

    healed = False

    def __init__(self, loaded: ResolvedRequest) -> None:
        self._loaded = loaded
        self._placed: PlacedModel | None = None

    @property
    def manifest(self) -> Manifest:
        """The manifest of this model."""
        return self._loaded.manifest

    @property
    def alive(self) -> bool:
        """Whether the model is loaded: it is until it is closed."""
        return self._placed is not None

    @property
    def lost(self) -> bool:
        """The same, the other way round."""
        return self._placed is None

    @property
    def placement(self) -> Placement:
        """Its device."""
        return self._here().placement

    @property
    def dtype(self) -> str:
        """The number format that it computes in: `fp32` where the family has no other."""
        return self._here().dtype

    @property
    def fingerprint(self) -> dict[str, str]:
        """What its answers depend on: device class, chip, driver, library versions."""
        return self._here().fingerprint

    @property
    def peak_mb(self) -> float | None:
        """As that of a `PlacedModel`: of the server's whole process."""
        return self._here().peak_mb

    @property
    def identity(self) -> Hashable:
        """All that its answers depend on: another worker of the same gives the same answers."""
        return self._here().identity

    def load(
        self, *, listener: Listener | None = None, cancel: threading.Event | None = None
    ) -> InlineModel:
        """Load it. Raises JumarError, whatever went wrong."""
        run = Run(self._loaded, {}, listener=listener, cancel=cancel)
        family = family_of(self.manifest)
        seat = seat_for(self._loaded, family)
        with _typed():
            loaded = load_model(self._loaded, family, seat, run)
        self._placed = PlacedModel(self._loaded, family, seat, loaded, run)
        return self

    def answer(self, visit: Visit, *, owed: Owed | None = None) -> GenerateResult:
        """Answer a request that has been looked at. What is owed of others is written before."""
        if owed is not None:
            owed.settle()
        return self._here().answer(visit, owed=owed)

    def generate(self, **keys: Any) -> GenerateResult:
        """As that of a `PlacedModel`."""
        return self._here().generate(**keys)

    def encode(
        self, texts: Sequence[str], *, listener: Listener | None = None, **config: Any
    ) -> np.ndarray[Any, Any]:
        """Vectors of `texts`: float32 [n, dimensions]. Raises JumarError, whatever went wrong."""
        with _typed():
            return self._here().encode(texts, listener=listener, **config)

    def close(self) -> None:
        """Let go of the model and the device's memory."""
        if self._placed is not None:
            self._placed.close()
            self._placed = None

    def _here(self) -> PlacedModel:
        if self._placed is None:
            raise NotReady(f"{self.manifest.id} is not loaded.")
        return self._placed


@contextmanager
def _typed() -> Iterator[None]:
    """Turn whatever a library raises into the error of the tree, the original its cause."""
    try:
        yield
    except JumarError:
        raise
    except Exception as error:
        raise typed(error) from error

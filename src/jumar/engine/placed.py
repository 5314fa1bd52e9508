"""A model that is loaded on a device, in this process."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jumar import catalog
from jumar.catalog.manifest import Manifest
from jumar.catalog.resolution import ResolvedRequest
from jumar.contracts.errors import InvalidRequest
from jumar.contracts.requests import GenerateRequest
from jumar.contracts.results import GenerateResult
from jumar.engine.record import Owed, Record
from jumar.engine.seat import Seat
from jumar.engine.steps import Loaded, Made, answer, encode, let_go
from jumar.engine.visit import Terms, Visit
from jumar.runtime.families import Family
from jumar.runtime.run import Listener, Run

if TYPE_CHECKING:
    import numpy as np


class PlacedModel:
    """A model that is loaded on a device. Close it, or use it in a `with` statement."""

    def __init__(
        self,
        resolved: ResolvedRequest,
        family: Family,
        seat: Seat,
        loaded: Loaded,
        loading: Run,
    ) -> None:
        self.load_timings = loading.timings
        self.peak_mb: float | None = None
        """The most memory that the last texts took, as a report has it for other runs."""
        self._terms = Terms(resolved)
        self._family = family
        self._seat = seat
        self.placement = seat.placed()
        self._loaded: Loaded | None = loaded
        self._lock = threading.Lock()

    @property
    def manifest(self) -> Manifest:
        """The manifest of this model."""
        return self._terms.manifest

    @property
    def longest(self) -> int | None:
        """Where the model cuts a text off, in tokens; None where it says nothing of that."""
        longest: int | None = getattr(self._open().model, "longest", None)
        return longest

    @property
    def dtype(self) -> str:
        """The number format that it computes in: `fp32` where the family has no other."""
        return str(getattr(self._open().model, "dtype", "fp32"))

    @property
    def fingerprint(self) -> dict[str, str]:
        """What its answers depend on: device class, chip, driver, library versions."""
        return self._seat.fingerprint

    @property
    def identity(self) -> Hashable:
        """All that its answers depend on: another worker of the same gives the same answers."""
        return (self._terms.loaded.cache_key(), self._seat.identity)

    def generate(
        self,
        request: GenerateRequest | None = None,
        *,
        out: str | Path | None = None,
        overwrite: bool = False,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        **keys: Any,
    ) -> GenerateResult:
        """Answer a request, or the inputs and config given as keywords.

        Raises:
            InvalidRequest: before anything ran; also where the request is for another model, or
                for load-time keys that this model was not loaded with.
        """
        request = request or self._terms.request(keys)
        visit = Visit(request, out=out, overwrite=overwrite, listener=listener, cancel=cancel)
        self._terms.fit(visit.resolved)
        return self.answer(visit)

    def answer(self, visit: Visit, *, owed: Owed | None = None) -> GenerateResult:
        """Answer a request that has been looked at; `owed` as for a `Record`."""
        record = Record(visit.run, visit.destination, lambda: self._seat, owed)
        with record, self._lock:
            answer(self._open(), visit.run, visit.destination, record.made)
        if not record.result.ok:
            let_go(self.placement)
        return record.result

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        listener: Listener | None = None,
        cancel: threading.Event | None = None,
        **config: Any,
    ) -> np.ndarray[Any, Any]:
        """Vectors of `texts`: float32 [n, dimensions]. Writes nothing.

        Raises:
            JumarError: whatever went wrong.
        """
        listed = [texts] if isinstance(texts, str) else list(texts)
        resolved = catalog.resolve(self._terms.request({"texts": listed, **config}))
        run = Run(resolved, self._family.prepare(resolved), listener=listener, cancel=cancel)
        made = Made()
        with self._lock:
            vectors = encode(self._open(), run, made)
        self.peak_mb = made.peak_mb
        return vectors

    def close(self) -> None:
        """Let go of the device's memory. Further requests are refused."""
        if self._loaded is not None:
            self._loaded.close()
            self._loaded = None

    def __enter__(self) -> PlacedModel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _open(self) -> Loaded:
        if self._loaded is None:
            raise InvalidRequest(f"{self.manifest.id} is closed.")
        return self._loaded

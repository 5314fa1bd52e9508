"""What surrounds each step of a worker: a beat that it goes on, and a shadow of one in N.

A step is one forward of the model and the sampling after it. All ranks count alike, so that they
judge the same steps.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.contracts.errors import InvalidValue, OutputFailed, ParityFailed

if TYPE_CHECKING:
    from jumar.evidence import Evidence
    from jumar.lab.shadow import Shadow
    from jumar.lab.shadow.findings import Guilty
    from jumar.vllm.healing.layers import Layers

SHADOW = "JUMAR_VLLM_SHADOW"
"""One step in so many is judged by the shadow."""

STATE = "JUMAR_VLLM_STATE"
"""The folder where the parts of a served model tell each other how it goes."""

GUILTY = "guilty"
"""In that folder: what this server's own shadow found. To the common store others write too."""

_BEATS = struct.Struct("<Q")


class Steps:
    """The steps of one worker on `device`; `every` is 0 where none is judged.

    Raises (on leaving a step):
        ParityFailed: the shadow found an operator guilty; the evidence is stored.
    """

    def __init__(self, device: str, *, rank: int = 0, every: int = 0, state: Path | None = None):
        self._device, self._every, self._taken = device, every, 0
        self._page = None if state is None else _page(state / f"beats.{rank}")
        self._own = None if state is None else state / GUILTY
        self._shadow: Shadow | None = None
        self._layers: Layers | None = None

    def watch(self, model: Any) -> None:
        """Judge the layers of this model too, each beside its formula."""
        if self._every:
            from jumar.vllm.healing.layers import Layers

            self._layers = Layers(model)

    @classmethod
    def from_environment(cls, device: str, rank: int = 0) -> Steps:
        """As `JUMAR_VLLM_SHADOW` and `JUMAR_VLLM_STATE` say.

        Raises:
            InvalidValue: the first is no whole number.
            OutputFailed: what the shadow finds could not be written.
        """
        every, state = os.environ.get(SHADOW, "0"), os.environ.get(STATE)
        if not every.isdecimal():
            raise InvalidValue(f"{SHADOW}={every!r} is no whole number.", param=SHADOW)
        if int(every):
            from jumar.evidence import Store

            Store().ready()
        return cls(device, rank=rank, every=int(every), state=Path(state) if state else None)

    @contextmanager
    def forward(self) -> Iterator[None]:
        """Around the forward, which begins a step."""
        self._taken += 1
        self._beat()
        with self._judged(begins=True):
            yield
        self._beat()

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Around the sampling, which belongs to the step of the forward before it."""
        with self._judged(begins=False):
            yield
        self._beat()

    @contextmanager
    def _judged(self, *, begins: bool) -> Iterator[None]:
        if not self._every or self._taken % self._every:
            yield
            return
        if begins or self._shadow is None:
            from jumar.lab.shadow import Shadow

            self._shadow = Shadow(self._device)
        with self._layers or nullcontext(), self._shadow:
            yield
        guilty = self._shadow.guilty + (self._layers.guilty if self._layers else [])
        if guilty:
            self._tell(guilty)

    def _tell(self, guilty: list[Guilty]) -> None:
        from jumar.evidence import Store
        from jumar.lab.check.implementations import fingerprint

        known = fingerprint(self._device)
        evidence = [one.evidence(known, time.time()) for one in guilty]
        named = ", ".join(f"{one.subject} {one.verdict} (evidence {one.id})" for one in evidence)
        found = f"In step {self._taken} the shadow found guilty: {named}."
        try:
            for store in [*([Store(self._own)] if self._own else ()), Store()]:
                for one in evidence:
                    store.add(one)
        except OutputFailed as error:  # who it was has to be heard all the same
            raise ParityFailed(f"{found} {error.message}") from error
        raise ParityFailed(
            found,
            hint="Start again: the evidence quarantines it. `jumar vllm serve` does so by itself.",
        )

    def _beat(self) -> None:
        if self._page is not None:
            (beats,) = _BEATS.unpack_from(self._page)
            _BEATS.pack_into(self._page, 0, beats + 1)


def beats(state: Path) -> dict[str, int]:
    """How often each worker of a served model has beaten: by the name of its file."""
    return {
        path.name: _BEATS.unpack(path.read_bytes()[: _BEATS.size])[0]
        for path in sorted(state.glob("beats.*"))
        if path.stat().st_size >= _BEATS.size
    }


def found_by_shadow(state: Path) -> list[Evidence]:
    """Bad evidence that the shadow of a served model wrote, whose folder this is."""
    from jumar.evidence import Store

    return [one for one in Store(state / GUILTY) if one.bad]


def _page(path: Path) -> mmap.mmap:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.ftruncate(descriptor, _BEATS.size)
        return mmap.mmap(descriptor, _BEATS.size)
    finally:
        os.close(descriptor)

"""What a worker has to show before it answers: the first of its kind, and who takes its place."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from jumar import catalog
from jumar.contracts.errors import ParityFailed
from jumar.lab.golden import Golden, places, read
from jumar.server.proving import Prover

MODEL = "all-minilm-l6-v2"


def recorded() -> Golden:
    folder = places.SHIPPED / MODEL
    return read(folder)


class Reader:
    """A worker of the encoder that says what was recorded, unless `spoils` does something to it."""

    dtype = "fp32"
    placement = SimpleNamespace(device_class="cpu", device=SimpleNamespace(label="cpu"))

    def __init__(
        self,
        identity: Hashable = "cpu",
        spoils: Callable[[np.ndarray, int], np.ndarray] = lambda vectors, asked: vectors,
    ) -> None:
        self.manifest = catalog.get(MODEL)
        self.fingerprint: dict[str, str] = {}
        self.identity = identity
        self.asked = 0
        self._spoils = spoils
        golden = recorded()
        (told,) = (one.answers for one in golden.references)
        self._known = {
            tuple(request.inputs["texts"]): np.stack([a.value for a in told[request.name].values()])
            for request in golden.requests
        }

    def encode(self, texts: list[str], **_: Any) -> np.ndarray:
        self.asked += 1
        return self._spoils(self._known[tuple(texts)], self.asked)


def each() -> int:
    return len(recorded().requests)


def prove(prover: Prover, worker: Reader) -> Any:
    return prover(worker)  # type: ignore[arg-type]


def test_who_takes_the_place_of_a_worker_is_asked_every_request_once() -> None:
    prover, first, second = Prover(), Reader(), Reader()
    assert prove(prover, first) == prove(prover, second)
    assert (first.asked, second.asked) == (2 * each(), each())


def test_every_answer_of_a_later_worker_is_held_against_its_reference() -> None:
    """Also where one number of one answer alone is wrong, in whichever request."""
    prover = Prover()
    whole = prove(prover, Reader())
    assert whole.matched == whole.checked == sum(len(v) for v in Reader()._known.values())
    for request in range(1, each() + 1):

        def spoiled(vectors: np.ndarray, asked: int, wrong: int = request) -> np.ndarray:
            return np.roll(vectors, 1, axis=-1) if asked == wrong else vectors

        with pytest.raises(ParityFailed):
            prove(prover, Reader(spoils=spoiled))


def test_the_first_worker_has_to_repeat_its_answers() -> None:
    def wavers(vectors: np.ndarray, asked: int) -> np.ndarray:
        return vectors + np.float32(1e-7) * (asked % 2)

    with pytest.raises(ParityFailed, match="other bits the second time"):
        prove(Prover(), Reader(spoils=wavers))


@pytest.mark.parametrize("failed", [False, True], ids=["another identity", "the first has failed"])
def test_what_has_not_been_shown_yet_is_asked_twice(failed: bool) -> None:
    prover = Prover()
    if failed:
        with pytest.raises(ParityFailed):
            prove(prover, Reader(spoils=lambda vectors, asked: -vectors))
    else:
        prove(prover, Reader(identity="cpu, with an operator in quarantine"))
    later = Reader()
    prove(prover, later)
    assert later.asked == 2 * each()

"""A voice that tells of each piece as soon as it is spoken."""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import pytest
from tests.support.embedded import Embedded

from jumar.contracts.results import StageEventRecord

pytestmark = pytest.mark.models

TWO = {"prompt": "This is the first sentence. And here is the second one."}


@pytest.fixture(scope="module")
def voice() -> Embedded:
    return Embedded("hibari")


def pieces(voice: Embedded, **config: Any) -> tuple[list[dict[str, Any]], bytes]:
    """The data of all `sound` events, and the samples of the file."""
    heard: list[StageEventRecord] = []
    answer = voice.answer(TWO, listener=heard.append, seed=3, **config)
    with wave.open(io.BytesIO(answer.bytes), "rb") as file:
        samples = file.readframes(file.getnframes())
    assert not any(event.event == "sound" for event in answer.run.events), "reports stay small"
    return [event.data for event in heard if event.event == "sound"], samples


def test_the_pieces_together_are_the_file(voice: Embedded) -> None:
    told, samples = pieces(voice, stream=True)
    assert [piece["number"] for piece in told] == [1, 2]
    assert {piece["rate"] for piece in told} == {24_000}
    assert b"".join(base64.b64decode(piece["pcm"]) for piece in told) == samples


def test_nobody_is_told_who_did_not_ask(voice: Embedded) -> None:
    told, samples = pieces(voice)
    assert told == [] and samples

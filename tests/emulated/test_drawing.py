"""Several callers of one picture model on an emulated card, in one call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from jumar import catalog
from jumar.contracts.requests import text2image
from jumar.engine.queue import Batching
from jumar.engine.served import Served
from jumar.engine.service import Service
from jumar.engine.visit import Visit
from jumar.isolate import Zygote
from jumar.parity.answers import Answer, apart

PATIENT = 240
WORDS = ("a red seven", "a blue two", "a green nine")


@pytest.fixture
def served():
    loaded = catalog.resolve_load(
        catalog.get("sdxl-digits"), "text2image", "npu:0", {"compile": "off"}
    )
    with Zygote(["torch"]) as zygote:
        one = Served(loaded, Service(batching=Batching(3)), zygote=zygote)
        yield one
        one.close()


def asked(served, folder, number):
    request = text2image(
        "sdxl-digits",
        WORDS[number],
        backend="npu:0",
        compile="off",
        seed=number,
        num_inference_steps=4,
    )
    visit = Visit(request, out=folder, overwrite=True, listener=None, cancel=None)
    return served.answer(visit)


def test_each_gets_the_picture_that_he_would_get_alone(served, tmp_path):
    waiting = [asked(served, tmp_path, number) for number in range(3)]  # while it loads
    together = [one.result(PATIENT) for one in waiting]
    assert [one.metadata.batch_size for one in together] == [3] * 3
    assert {one.metadata.fingerprint["device_class"] for one in together} == {"npu-emulated"}
    assert len({one.metadata.latent_stats["mean"] for one in together}) == 3
    for number, one in enumerate(together):
        alone = asked(served, tmp_path, number).result(PATIENT)
        assert alone.metadata.batch_size == 1
        wanted, got = (
            Answer("picture", np.asarray(Image.open(Path(run.outputs[0].path))).astype(float))
            for run in (alone, one)
        )
        assert apart(wanted, got, rounding=one.metadata.config_resolved["dtype"]) is None

"""Models in turn on one emulated card: one place, and the memory of one."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from tests.isolate.conftest import is_alive
from tests.support.tiny_checkpoints import sentence_bert

from jumar import requests
from jumar.contracts.results import Parity
from jumar.engine.house import House, Limits
from jumar.engine.queue import Batching
from jumar.engine.results import Encoding
from jumar.engine.service import Service
from jumar.engine.visit import Visit
from jumar.isolate import Zygote

PATIENT = 120
DTYPES = ("fp32", "bf16", "fp32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return sentence_bert(tmp_path_factory.mktemp("encoder"))


@pytest.fixture(scope="module")
def zygote():
    with Zygote(["torch", "transformers.models.bert.modeling_bert"]) as one:
        yield one


def visit(folder, out, dtype):
    request = requests.embeddings(
        "all-minilm-l6-v2", ["hello"], backend="npu:0",
        model_path=str(folder), compile="off", dtype=dtype,
    )  # fmt: skip
    return Visit(request, out=out, overwrite=True, listener=None, cancel=None)


def test_with_one_place_each_model_has_the_card_for_itself(zygote, folder, tmp_path):
    """Accounting is by process: when the next loads, the process before is gone with all it had."""
    house = House("npu:0", Limits(models=1, concurrency=1), zygote=zygote)
    reports, overlapping = [], []
    for dtype in DTYPES:
        done = house.answer(visit(folder, tmp_path, dtype)).result(PATIENT)
        assert done.ok, done.metadata.error_detail
        overlapping += [one.worker_id for one in reports if is_alive(int(one.worker_id))]
        reports.append(done.metadata)
    (served,) = house.models()
    assert served.device_class == "npu-emulated", "what callers are told of the device"
    house.close()
    assert overlapping == []
    assert len({report.worker_id for report in reports}) == len(DTYPES)
    assert {report.device for report in reports} == {"npu:0"}
    peaks = [report.memory["peak_mb"] for report in reports]
    assert peaks[2] == peaks[0], "nothing of the models in between"


def test_with_room_for_two_the_first_stays(zygote, folder, tmp_path):
    """The control: without the bound its process lives on."""
    house = House("npu:0", Limits(models=2), zygote=zygote)
    first, _, again = (
        house.answer(visit(folder, tmp_path, dtype)).result(PATIENT).metadata.worker_id
        for dtype in DTYPES
    )
    house.close()
    assert again == first


def test_many_callers_each_get_their_own_vectors_from_one_batch(zygote, folder, tmp_path):
    begin = threading.Event()

    def prove(model):
        begin.wait(PATIENT)
        return Parity(status="unverified")

    service = Service(batching=Batching(8))
    house = House("npu:0", service=service, zygote=zygote, prove=prove)
    resolved = visit(folder, tmp_path, "fp32").resolved
    long = "hello hello hello"  # the tiny tokenizer tells texts apart by their length only
    texts = [["hello"], [long, "hello"], [long]]
    asked = [house.encode(resolved, Encoding(each)) for each in texts]
    begin.set()
    found = [one.result(PATIENT) for one in asked]
    house.close()
    short, longer = found[0].values[0], found[1].values[0]
    assert np.allclose(found[1].values[1], short, atol=1e-6)
    assert np.allclose(found[2].values[0], longer, atol=1e-6)
    assert not np.allclose(short, longer, atol=1e-3)
    assert [len(one.tokens) for one in found] == [1, 2, 1]

"""A server on an emulated card whose operator aborts: callers lose little, and the lab names it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from tests.support.tiny_checkpoints import sentence_bert

import jumar
from jumar import catalog
from jumar.contracts.errors import RunFailed
from jumar.engine.results import Encoding
from jumar.engine.served import Served
from jumar.evidence import Evidence, Store, Subject
from jumar.isolate import Zygote

PATIENT = 120
MODEL = "all-minilm-l6-v2"
TEXTS = ["a rope", "an anchor"]
PRELOAD = ["torch", "transformers.models.bert.modeling_bert"]


@pytest.fixture(scope="module")
def loading(tmp_path_factory):
    folder = sentence_bert(tmp_path_factory.mktemp("encoder"))
    return {"compile": "off", "model_path": str(folder)}


@pytest.fixture
def serve(loading, tmp_path, monkeypatch):
    """Serve the encoder on a card whose gelu aborts."""
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path / "evidence"))
    monkeypatch.setenv("JUMAR_EMULATE_FAULTS", "[{op: gelu, kind: abort}]")
    opened = []
    with Zygote(PRELOAD) as zygote:

        def one(investigate):
            loaded = catalog.resolve_load(catalog.get(MODEL), "embeddings", "npu:0", loading)
            opened.append(Served(loaded, investigate=investigate, zygote=zygote))
            return opened[-1]

        yield one
        for served in opened:
            served.close()


def test_the_second_loss_in_one_place_is_looked_into_and_the_request_answered_without_the_guilty(
    serve, loading
):
    asked = []

    def investigate(failed, request):
        asked.append(failed.error.cause)
        subject = Subject(operator="aten::gelu", implementation="device")
        return [
            Evidence(
                subject=subject,
                fingerprint=failed.fingerprint,
                verdict="aborts",
                found_by="recorder",
                at=time.time(),
            )
        ]

    vectors = serve(investigate).encode(Encoding(TEXTS)).result(PATIENT).values
    (cause,) = asked
    assert "SIGABRT" in cause
    assert [str(one.subject) for one in Store()] == ["aten::gelu by device"]
    on_the_cpu = jumar.embed(MODEL, TEXTS, backend="cpu", **loading)
    np.testing.assert_allclose(vectors, on_the_cpu, atol=1e-4)


def test_without_anybody_who_looks_into_it_the_request_fails_after_its_second_loss(serve):
    served = serve(None)
    with pytest.raises(RunFailed, match="The worker ended during"):
        served.encode(Encoding(TEXTS)).result(PATIENT)
    assert list(Store()) == []

"""A server says whether it answers, and why not; wrong goldens keep a model from callers."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
from tests.isolate.conftest import eventually
from tests.support.serving import Running, serving

from jumar.contracts.errors import ParityFailed
from jumar.contracts.results import Parity
from jumar.engine.house import Limits
from jumar.engine.service import Prove, Service
from jumar.engine.watched import WatchedModel
from jumar.lab.golden import places
from jumar.server.proving import proven


def failing(model: WatchedModel) -> Parity:
    raise ParityFailed("2 findings in the golden answers on cpu fp32; first: short, vector.0")


def test_a_model_whose_goldens_fail_answers_nobody(tmp_path: Path) -> None:
    with serving(tmp_path, "toy", prove=failing) as server:
        server.ready()
        readyz, health = server.client.get("/readyz"), server.client.get("/health")
        assert (readyz.status_code, readyz.json()["status"]) == (503, "failed")
        assert "2 findings in the golden answers" in readyz.json()["reason"]
        assert (health.status_code, health.json()["models"]["toy"]["status"]) == (503, "failed")
        refused = server.ask()
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
        assert "2 findings" in refused.json()["error"]["message"]
        card = server.client.get("/v1/models/toy").json()
        assert (card["ready"], card["golden"]["status"]) == (False, "failed")
        assert server.client.get("/health/live").status_code == 200, "the process is well"


def test_it_is_not_ready_while_a_named_model_proves_itself(tmp_path: Path) -> None:
    go = threading.Event()

    def prove(model: WatchedModel) -> Parity:
        go.wait(60)
        return Parity(status="matched", checked=3, matched=3, reference="cpu fp32")

    with serving(tmp_path, "toy", prove=prove) as server:
        assert eventually(lambda: server.client.get("/readyz").json()["status"] == "warming")
        assert server.client.get("/readyz").status_code == 503
        go.set()
        server.ready()
        assert server.client.get("/readyz").status_code == 200
        card = server.client.get("/v1/models/toy").json()
        assert card["golden"] == {
            "status": "matched", "checked": 3, "matched": 3, "reference": "cpu fp32",
        }  # fmt: skip
        assert (card["device"], card["device_class"]) == ("cpu", "cpu")
        assert server.ask().json()["metadata"]["parity"]["status"] == "matched"


@pytest.mark.parametrize(("required", "status"), [(True, 503), (False, 200)])
def test_a_model_without_goldens_is_served_and_says_so_unless_they_are_required(
    tmp_path: Path, required: bool, status: int
) -> None:
    service = Service(require_verified=required)
    with serving(tmp_path, "toy", prove=proven, service=service) as server:
        server.ready()
        assert server.ask().status_code == status
        assert server.client.get("/readyz").status_code == status


def test_a_server_without_named_models_is_ready_and_loads_on_demand(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        assert server.client.get("/readyz").status_code == 200
        card = server.client.get("/v1/models/toy").json()
        assert (card["loaded"], card["status"]) == (False, "unloaded")
        assert server.ask().status_code == 200
        assert server.client.get("/v1/models").json()["data"][0]["id"] == "toy"


@pytest.mark.parametrize("wrong", ["fp32", None])
def test_what_callers_load_does_not_change_whether_the_named_model_answers(
    tmp_path: Path, wrong: str | None
) -> None:
    """Goldens fail with one dtype: that of a caller, or that of the operator."""

    def prove(model: WatchedModel) -> Parity:
        if model._terms.loaded.load_config["dtype"] == wrong:
            raise ParityFailed("1 finding in the golden answers.")
        return Parity(status="matched", checked=3, matched=3, reference="cpu fp32")

    status = 200 if wrong else 503
    with serving(tmp_path, "toy", prove=prove, limits=Limits(2)) as server:
        server.ready()
        assert server.client.get("/readyz").status_code == status
        for dtype in ("fp32", "fp16"):
            asked = server.ask(config={"dtype": dtype})
            assert asked.status_code == (503 if dtype == wrong else 200), asked.text
            ready, health = server.client.get("/readyz"), server.client.get("/health")
            assert (ready.status_code, health.status_code) == (status, status)
            said = health.json()["models"]["toy"]["status"]
            assert said == server.client.get("/v1/models/toy").json()["status"]
            assert (said == "ready") is (status == 200)


def test_only_the_named_models_are_listed_and_served_where_some_are(tmp_path: Path) -> None:
    with serving(tmp_path, "toy", only=["toy"]) as server:
        assert [one["id"] for one in server.client.get("/v1/models").json()["data"]] == ["toy"]
        body = {"model": "hibari", "inputs": {"prompt": "a"}}
        refused = server.client.post("/v1/generate", json=body)
        assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
        assert server.client.get("/v1/models/hibari").status_code == 404


# ---- a real encoder ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encoder(toys: None, tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """all-minilm-l6-v2, held to its goldens before it answers."""
    prove: Prove = proven
    with serving(tmp_path_factory.mktemp("encoder"), "all-minilm-l6-v2", prove=prove) as running:
        yield running.ready("all-minilm-l6-v2")


def embed(server: Running, text: object, **more: object):  # type: ignore[no-untyped-def]
    body = {"model": "minilm", "input": text, **more}
    return server.client.post("/v1/embeddings", json=body)


@pytest.mark.models
def test_an_encoder_matches_its_goldens_before_it_answers(encoder: Running) -> None:
    golden = encoder.client.get("/v1/models/minilm").json()["golden"]
    assert golden["status"] == "matched"
    assert golden["checked"] == golden["matched"] > 10


@pytest.mark.models
def test_vectors_are_those_of_the_golden_reference(encoder: Running) -> None:
    from jumar.lab.golden import read

    folder = places.folder_of("all-minilm-l6-v2")
    assert folder is not None
    recorded = read(folder)
    texts = next(one for one in recorded.requests if one.name == "short").inputs["texts"]
    wanted = recorded.references[0].answers["short"]["vector.0"].value
    body = embed(encoder, texts).json()
    assert body["data"][0]["index"] == 0
    assert np.allclose(body["data"][0]["embedding"], wanted, atol=1e-5)
    assert body["usage"]["prompt_tokens"] == body["usage"]["total_tokens"] > 3


@pytest.mark.models
def test_base64_holds_the_same_numbers_and_dimensions_cut_them(encoder: Running) -> None:
    import base64

    plain = embed(encoder, "a rope").json()["data"][0]["embedding"]
    packed = embed(encoder, "a rope", encoding_format="base64").json()["data"][0]["embedding"]
    assert np.array_equal(np.frombuffer(base64.b64decode(packed), "<f4"), np.float32(plain))
    short = np.array(embed(encoder, "a rope", dimensions=8).json()["data"][0]["embedding"])
    assert short.shape == (8,)
    whole = np.array(plain[:8])
    assert np.allclose(short, whole / np.linalg.norm(whole), atol=1e-5)


@pytest.mark.models
def test_many_callers_get_their_own_vectors(encoder: Running) -> None:
    from concurrent.futures import ThreadPoolExecutor

    texts = [f"a rope of {n} metres " + "and more " * (n % 5) for n in range(24)]
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda text: embed(encoder, text).json(), texts))
    alone = embed(encoder, texts).json()["data"]
    for mine, wanted in zip(found, alone, strict=True):
        assert np.allclose(mine["data"][0]["embedding"], wanted["embedding"], atol=1e-5)


WRONG = [
    ({"input": ""}, 400, "input"),
    ({"input": []}, 400, "input"),
    ({"input": ["a", " "]}, 400, "input"),
    ({"input": [1, 2]}, 400, "input"),
    ({"input": [[1, 2], [3]]}, 400, "input"),
    ({"input": "a", "encoding_format": "hex"}, 400, "encoding_format"),
    ({"input": "a", "dimensions": 9999}, 400, "dimensions"),
    ({"input": ["a"] * 3000}, 413, "input"),
    ({"input": "a", "model": "toy"}, 422, "model"),
]


@pytest.mark.models
@pytest.mark.parametrize(("body", "status", "param"), WRONG, ids=lambda value: str(value)[:30])
def test_wrong_texts_are_refused(
    encoder: Running, body: dict[str, object], status: int, param: str
) -> None:
    response = encoder.client.post("/v1/embeddings", json={"model": "minilm", **body})
    found = response.json()["error"]
    assert response.status_code == status, found
    assert str(found["param"]).startswith(param)


@pytest.mark.models
def test_a_wrong_request_in_a_batch_costs_the_others_nothing(encoder: Running) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as callers:
        asked = [callers.submit(embed, encoder, "a", dimensions=d) for d in (8, 9999) * 4]
        codes = [one.result().status_code for one in asked]
    assert codes == [200, 400] * 4

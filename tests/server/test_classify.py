"""POST /v1/classify and /v1/rerank, in the shapes of the semantic router's model runtime."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.catalog.index import catalog as known
from jumar.server.proving import proven

tiny = pytest.importorskip("tests.support.tiny_checkpoints")

MODELS = ("topics", "ranks", "names")
TEXT = "a cat sat on the mat"


@pytest.fixture(scope="module")
def reading(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Three tiny classifiers from folders of the operator's."""
    home: Path = tmp_path_factory.mktemp("heads")
    tiny.bert_head(home / "topics", "SequenceClassification", ("math", "law", "other"))
    tiny.bert_head(home / "ranks", "SequenceClassification", ("LABEL_0",))
    tiny.bert_head(home / "names", "TokenClassification", ("O", "B-PER", "I-PER", "B-LOC"))
    for name in MODELS:
        catalog.adopt(home / name)
    with serving(home / "data", *MODELS, prove=proven) as running:
        for name in MODELS:
            running.ready(name)
        yield running
    known.cache_clear()


def asked(server: Running, route: str, **body: Any) -> Any:
    response = server.client.post(f"/v1/{route}", json=body)
    assert response.status_code == 200, response.text
    return response


def test_a_text_has_a_label_and_the_probabilities_of_all(reading: Running) -> None:
    body = asked(reading, "classify", model="topics", input=TEXT).json()
    (result,) = body["results"]
    assert (body["head"], body["kind"]) == ("default", "sequence")
    assert body["labels"] == ["math", "law", "other"]
    best = max(range(3), key=result["probabilities"].__getitem__)
    assert result["label"] == body["labels"][best]
    assert sum(result["probabilities"]) == pytest.approx(1, abs=1e-5)
    assert result["input"] == {
        "tokens": 8, "processed_tokens": 8, "truncated": False, "windows": 1,
    }  # fmt: skip
    assert body["usage"]["prompt_tokens"] == 8


def test_a_text_that_is_too_long_is_named_by_its_place_though_others_were_known(
    reading: Running,
) -> None:
    asked(reading, "classify", model="topics", input=["the mat", "a dog"])
    body = {"model": "topics", "input": ["the mat", "far", "a dog", "cat " * 40]}
    for _ in range(2):  # the second time all but the long one are known
        refused = reading.client.post("/v1/classify", json=body)
        error = refused.json()["error"]
        assert (refused.status_code, error["param"]) == (400, "input.3")
        assert error["message"].startswith("Text 3 has ")
        asked(reading, "classify", model="topics", input="far")


def test_an_unknown_field_inside_another_is_named_with_the_nearest(reading: Running) -> None:
    body = {"model": "topics", "input": "a", "options": {"treshold": 0.4}}
    error = reading.client.post("/v1/classify", json=body).json()["error"]
    assert (error["code"], error["param"]) == ("unknown_key", "options.treshold")
    assert error["hint"] == "Did you mean 'threshold'?"
    deeper = {**body, "options": {"window": {"overlop": 1}}}
    error = reading.client.post("/v1/classify", json=deeper).json()["error"]
    assert (error["param"], error["hint"]) == (
        "options.window.overlop",
        "Did you mean 'overlap'?",
    )


def test_many_texts_each_have_their_own_and_pairs_are_read_together(reading: Running) -> None:
    body = asked(reading, "classify", model="topics", input=[TEXT, "cat"]).json()
    assert [one["index"] for one in body["results"]] == [0, 1]
    alone = asked(reading, "classify", model="topics", input="cat").json()["results"][0]
    assert body["results"][1]["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)
    pair = [{"text": "cat", "text_pair": "dog"}]
    paired = asked(reading, "classify", model="topics", input=pair).json()["results"][0]
    assert paired["probabilities"] != pytest.approx(alone["probabilities"], abs=1e-3)


def test_stretches_of_text_have_offsets_in_code_points(reading: Running) -> None:
    text = f"😀 {TEXT}"
    body = asked(reading, "classify", model="names", input=text).json()
    assert body["kind"] == "token"
    for span in body["results"][0]["spans"]:
        assert text[span["start"] : span["end"]] == span["text"]


def test_long_texts_are_refused_cut_or_read_in_windows(reading: Running) -> None:
    long = "cat sat on the mat " * 20
    refused = reading.client.post("/v1/classify", json={"model": "topics", "input": long})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")
    cut = asked(
        reading, "classify", model="topics", input=long, options={"overflow": "truncate"}
    ).json()["results"][0]["input"]
    assert (cut["tokens"], cut["processed_tokens"], cut["truncated"]) == (102, 32, True)
    options = {"overflow": "window", "window": {"tokens": 16, "overlap": 4}}
    whole = asked(reading, "classify", model="topics", input=long, options=options).json()
    assert whole["results"][0]["windows"] > 5
    assert whole["results"][0]["input"]["truncated"] is False


def test_documents_come_in_the_order_of_their_scores(reading: Running) -> None:
    documents = ["cat", "the dog ran far away", "mat and mat", TEXT]
    body = asked(
        reading, "rerank", model="ranks", query="the cat", documents=documents,
        top_n=3, return_documents=True,
    ).json()  # fmt: skip
    scores = [one["relevance_score"] for one in body["results"]]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    for one in body["results"]:
        assert one["document"]["text"] == documents[one["index"]]
        assert 0 <= one["relevance_score"] <= 1


def test_a_text_that_was_read_is_not_read_again_and_the_answer_says_so(reading: Running) -> None:
    text = "far away and far"
    first = asked(reading, "classify", model="topics", input=text)
    again = asked(reading, "classify", model="topics", input=["dog", text])
    other = asked(reading, "classify", model="topics", input=text, options={"overflow": "truncate"})
    hits = [one.headers["X-Jumar-Cache-Hits"] for one in (first, again, other)]
    assert hits == ["0", "1", "0"]
    assert (
        again.json()["results"][1]["probabilities"] == (first.json()["results"][0]["probabilities"])
    )
    metrics = reading.client.get("/metrics").text
    assert 'jumar_result_cache_total{model="topics",outcome="hit"}' in metrics
    assert 'jumar_model_memory_peak_bytes{device_class="cpu",model="topics"}' in metrics


WRONG = [
    ("classify", {"model": "ranks", "input": "cat"}, 422, "unsupported_surface"),
    ("rerank", {"model": "topics", "query": "a", "documents": ["b"]}, 422, "unsupported_surface"),
    ("classify", {"model": "topics", "input": [" "]}, 400, "invalid_input"),
    ("classify", {"model": "topics", "input": "cat", "heads": "a"}, 400, "unknown_key"),
    ("classify", {"model": "topics", "input": "cat", "head": "b"}, 400, "invalid_request"),
    ("rerank", {"model": "ranks", "query": "a", "documents": []}, 400, "invalid_request"),
]


@pytest.mark.parametrize(("route", "body", "status", "code"), WRONG)
def test_what_cannot_be_read_is_refused(
    reading: Running, route: str, body: dict[str, Any], status: int, code: str
) -> None:
    response = reading.client.post(f"/v1/{route}", json=body)
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)


def test_an_option_that_is_wrong_is_named_as_its_caller_wrote_it(reading: Running) -> None:
    body = {"model": "topics", "input": "cat", "options": {"max_tokens": 10**9}}
    error = reading.client.post("/v1/classify", json=body).json()["error"]
    assert error["param"] == "options.max_tokens"


def test_a_caller_cannot_name_a_folder(reading: Running, tmp_path: Path) -> None:
    folder = tiny.bert_head(tmp_path / "mine", "SequenceClassification", ("a", "b"))
    response = reading.client.post("/v1/classify", json={"model": str(folder), "input": "cat"})
    assert response.status_code == 404

"""What a client can check before it asks: heads and vectors on cards, and the space of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.catalog.index import catalog as known
from jumar.engine.house import Limits

tiny = pytest.importorskip("tests.support.tiny_checkpoints")

LABELS = ("math", "law", "other")
NLI = ("contradiction", "entailment")
NAMES = ("topics", "several", "names", "ranks", "nli", "vectors", "raw")


@pytest.fixture(scope="module")
def able(toys: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A model of each kind that reads, from folders of the operator's."""
    home: Path = tmp_path_factory.mktemp("abilities")
    several = "multi_label_classification"
    tiny.bert_head(home / "topics", "SequenceClassification", LABELS)
    tiny.bert_head(home / "several", "SequenceClassification", LABELS, several)
    tiny.bert_head(home / "names", "TokenClassification", ("O", "B-PER"))
    tiny.bert_head(home / "ranks", "SequenceClassification", ("LABEL_0",))
    tiny.bert_head(home / "nli", "SequenceClassification", NLI)
    tiny.sentence_bert(home / "vectors")
    tiny.sentence_bert(home / "raw", pooling=("cls_token", "max_tokens"), normalize=False)
    for name in NAMES:
        catalog.adopt(home / name)
    with serving(home / "data", *NAMES, limits=Limits(len(NAMES) + 1)) as running:
        for name in NAMES:
            running.ready(name)
        yield running
    known.cache_clear()


def card(server: Running, name: str) -> dict[str, Any]:
    found: dict[str, Any] = server.client.get(f"/v1/models/{name}").json()
    return found


def embedded(server: Running, model: str, **more: Any) -> dict[str, Any]:
    body = {"model": model, "input": ["a cat", "a dog"], **more}
    answer = server.client.post("/v1/embeddings", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize(
    ("name", "kind", "labels", "inputs", "threshold", "reduction"),
    [
        ("topics", "sequence", LABELS, ["text", "pair"], None, "mean"),
        ("several", "scores", LABELS, ["text", "pair"], 0.5, "max"),
        ("names", "token", ("O", "B-PER"), ["text"], 0.0, "span_union"),
        ("nli", "sequence", NLI, ["text", "pair"], None, "mean"),
    ],
)
def test_a_card_has_the_head_of_a_classifier(
    able: Running,
    name: str,
    kind: str,
    labels: tuple[str, ...],
    inputs: list[str],
    threshold: float | None,
    reduction: str,
) -> None:
    found = card(able, name)
    assert found["heads"] == [
        {
            "name": "default", "kind": kind, "labels": list(labels), "inputs": inputs,
            "default_threshold": threshold, "thresholds": None, "overflow": "reject",
            "window": None, "reduction": reduction, "operating_point_sha256": None,
        }
    ]  # fmt: skip
    assert "embedding" not in found
    assert found["limits"]["max_input_tokens"] == 32
    answer = able.client.post("/v1/classify", json={"model": name, "input": "a cat"}).json()
    assert (answer["head"], answer["kind"], answer["labels"]) == ("default", kind, list(labels))


def test_a_reranker_has_no_head_of_labels(able: Running) -> None:
    found = card(able, "ranks")
    assert "heads" not in found and "embedding" not in found
    assert found["surfaces"] == ["rerank"]


@pytest.mark.parametrize(
    ("name", "dimension", "pooling", "normalized"),
    [("vectors", 32, "mean", True), ("raw", 64, "cls+max", False)],
)
def test_a_card_has_the_vectors_of_an_encoder(
    able: Running, name: str, dimension: int, pooling: str, normalized: bool
) -> None:
    found = card(able, name)
    assert "heads" not in found
    assert found["embedding"] == {
        "dimensions": [dimension], "layers": [2], "modalities": ["text"],
        "normalized": normalized, "pooling": pooling, "input_types": [],
    }  # fmt: skip
    assert found["limits"]["max_input_tokens"] == 16
    vector = embedded(able, name)["data"][0]["embedding"]
    assert len(vector) == dimension
    length = sum(number * number for number in vector)
    assert (length == pytest.approx(1, abs=1e-5)) is normalized


def test_vectors_say_in_which_space_they_are_also_where_they_were_known_before(
    able: Running,
) -> None:
    for _ in range(2):
        assert embedded(able, "vectors")["meta"]["representation"] == {
            "model_sha256": None, "layer": 2, "dimension": 32, "normalized": True,
            "modality": "text",
        }  # fmt: skip
    fewer = embedded(able, "vectors", dimensions=8)["meta"]["representation"]
    assert fewer["dimension"] == 8
    assert embedded(able, "raw")["meta"]["representation"]["normalized"] is False


def test_who_does_not_want_that_gets_openais_list_alone(able: Running) -> None:
    body = embedded(able, "vectors", options={"return_meta": False, "deadline_ms": 60_000})
    assert set(body) == {"object", "data", "model", "usage"}


def test_the_deadline_of_the_options_holds(able: Running) -> None:
    body = {"model": "vectors", "input": "a mat", "options": {"deadline_ms": 1e-6}}
    late = able.client.post("/v1/embeddings", json=body)
    assert (late.status_code, late.json()["error"]["code"]) == (504, "deadline_exceeded")


def test_a_model_that_is_not_loaded_has_told_nothing_yet(server: Running) -> None:
    found = card(server, "svguardian")
    assert found["loaded"] is False
    assert "heads" not in found and "max_input_tokens" not in found["limits"]


def test_a_card_names_no_folder_of_this_machine(able: Running) -> None:
    every = able.client.get("/v1/models").json()["data"]
    mine = {one["id"]: one["aliases"] for one in every if one["id"] in NAMES}
    assert mine == {name: [] for name in NAMES}


def test_a_client_of_the_model_runtime_finds_the_version_of_its_contract(able: Running) -> None:
    found = able.client.get("/v1/models").json()
    for body in (found, *(able.client.get(f"/health{end}").json() for end in ("", "/live"))):
        assert body["api_version"].split(".")[0] == "2"
    assert found["limits"] == {"max_bundle_tasks": 64, "max_request_bytes": 8 << 20}
    asked = able.client.post("/v1/classify", json={"model": "topics", "input": "a cat"})
    usage = asked.json()["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (usage["prompt_tokens"], 0)


@pytest.mark.models
def test_a_counter_of_ngrams_has_a_head_and_no_limit(tmp_path: Path) -> None:
    with serving(tmp_path, "py3langid") as server:
        server.ready("py3langid")
        (head,) = card(server, "py3langid")["heads"]
        assert (head["kind"], len(head["labels"]), head["inputs"]) == ("sequence", 140, ["text"])
        assert (head["overflow"], head["reduction"]) == (None, None)
        assert "max_input_tokens" not in card(server, "py3langid")["limits"]


@pytest.mark.models
def test_the_space_of_pinned_weights_has_their_digest(tmp_path: Path) -> None:
    with serving(tmp_path, "all-minilm-l6-v2") as server:
        server.ready("all-minilm-l6-v2")
        found = card(server, "minilm")
        space = embedded(server, "minilm")["meta"]["representation"]
    assert found["embedding"]["dimensions"] == [384]
    assert found["embedding"]["layers"] == [space["layer"]] == [6]
    assert space["model_sha256"] == found["model_sha256"] is not None

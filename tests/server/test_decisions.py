"""POST /v1/decisions and /v1/bundle, in the shapes of the semantic router's model runtime."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.serving import Running, serving

from jumar import catalog
from jumar.catalog.index import catalog as known
from jumar.contracts.errors import ParityFailed
from jumar.engine.queue import Batching
from jumar.engine.service import Service
from jumar.server.proving import proven

tiny = pytest.importorskip("tests.support.tiny_checkpoints")

LABELS = ("contradiction", "entailment", "neutral")
STATE = "a cat sat on the mat"
QUESTIONS = {
    "topic": {"type": "choice", "choices": ["cat", "dog", "mat"]},
    "guard": {"type": "noul", "criteria": "the dog ran"},
    "far": {"type": "score", "levels": ["on the mat", "away", "far away"]},
    "about": {"type": "set", "labels": ["cat", "dog"], "threshold": 0.4},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("nli")
    tiny.bert_head(folder / "nli", "SequenceClassification", LABELS)
    tiny.bert_head(folder / "topics", "SequenceClassification", ("math", "law", "other"))
    tiny.bert_head(folder / "ranks", "SequenceClassification", ("LABEL_0",))
    tiny.bert_head(folder / "names", "TokenClassification", ("O", "B-PER", "I-PER", "B-LOC"))
    return folder


@pytest.fixture(scope="module", autouse=True)
def forgotten(toys: None) -> Iterator[None]:
    """Folders stay adopted while any test here may ask for them."""
    yield
    known.cache_clear()


@pytest.fixture(scope="module")
def deciding(toys: None, home: Path) -> Iterator[Running]:
    """A model that answers questions, and others."""
    names = ("nli", "topics", "ranks", "names")
    for name in names:
        catalog.adopt(home / name)
    with serving(home / "data", *names, prove=proven) as running:
        for name in names:
            running.ready(name)
        yield running


def posted(server: Running, route: str, **body: Any) -> Any:
    response = server.client.post(f"/v1/{route}", json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_each_question_has_an_answer_of_its_type(deciding: Running) -> None:
    body = posted(deciding, "decisions", model="nli", state=STATE, questions=QUESTIONS)
    answers = body["answers"]
    assert {name: one["type"] for name, one in answers.items()} == {
        name: one["type"] for name, one in QUESTIONS.items()
    }
    topic = answers["topic"]
    assert sum(topic["probabilities"].values()) == pytest.approx(1)
    assert topic["confidence"] == max(topic["probabilities"].values())
    assert topic["probabilities"][topic["choice"]] == topic["confidence"]
    assert 0 <= answers["guard"]["noul"] <= 1
    assert 0 <= answers["far"]["score"] <= 2
    assert answers["far"]["legend"] == {"0": "on the mat", "1": "away", "2": "far away"}
    picked = [name for name, p in answers["about"]["probabilities"].items() if p >= 0.4]
    assert answers["about"]["selected"] == picked
    assert body["meta"]["texts"] == 3 + 1 + 3 + 2
    assert body["meta"]["truncated"] is False
    assert body["usage"]["prompt_tokens"] == body["meta"]["tokens"]


def test_the_numbers_are_those_of_the_model_by_hand(deciding: Running, home: Path) -> None:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(home / "nli")
    head = transformers.AutoModelForSequenceClassification.from_pretrained(home / "nli").eval()
    with torch.no_grad():
        logits = head(**tokenizer(STATE, "the dog ran", return_tensors="pt")).logits[0]
    wanted = logits[:2].softmax(0)[1].item()
    asked = {"guard": QUESTIONS["guard"]}
    body = posted(deciding, "decisions", model="nli", state=STATE, questions=asked)
    assert body["answers"]["guard"]["noul"] == pytest.approx(wanted, abs=1e-5)


def test_the_alias_and_system_ones_spelling_give_the_same_answers(deciding: Running) -> None:
    asked = {
        "topic": {"type": "choice", "criteria": {"cat": None, "dog": None, "mat": None}},
        "far": {"type": "score", "criteria": ["on the mat", "away", "far away"]},
    }
    alias = posted(deciding, "systemone", model="nli", state=STATE, questions=asked)
    own = posted(deciding, "decisions", model="nli", state=STATE, questions=QUESTIONS)
    for name in asked:
        assert alias["answers"][name] == own["answers"][name]


def test_classes_of_pairs_and_decisions_do_not_get_into_each_others_way(deciding: Running) -> None:
    """One loaded model, one cache of results: probabilities here, logits there."""
    pair = [{"text": STATE, "text_pair": "the dog ran"}]
    asked = {"guard": QUESTIONS["guard"]}
    for _ in range(2):
        labels = posted(deciding, "classify", model="nli", input=pair)
        assert (labels["kind"], labels["labels"]) == ("sequence", list(LABELS))
        shares = labels["results"][0]["probabilities"]
        found = posted(deciding, "decisions", model="nli", state=STATE, questions=asked)
        wanted = shares[1] / (shares[0] + shares[1])
        assert found["answers"]["guard"]["noul"] == pytest.approx(wanted, abs=1e-5)
    assert len([s for s in deciding.desk.house.models() if s.loaded.manifest.id == "nli"]) == 1


def test_a_pair_that_was_read_is_not_read_again(deciding: Running) -> None:
    body = {"model": "nli", "state": "far and away", "questions": {"t": QUESTIONS["topic"]}}
    hits = [
        deciding.client.post("/v1/decisions", json=body).headers["X-Jumar-Cache-Hits"]
        for _ in range(2)
    ]
    assert hits == ["0", "3"]


def test_a_wrong_question_fails_alone(deciding: Running) -> None:
    asked = {
        "guard": QUESTIONS["guard"],
        "few": {"type": "choice", "choices": ["cat"]},
        "where": {"type": "span", "labels": ["PER"]},
    }
    answers = posted(deciding, "decisions", model="nli", state=STATE, questions=asked)["answers"]
    assert 0 <= answers["guard"]["noul"] <= 1
    assert {answers[name]["error"] for name in ("few", "where")} == {"invalid_question"}


def test_a_token_head_answers_where(deciding: Running) -> None:
    labelled = posted(deciding, "classify", model="names", input=STATE)
    wanted = [one for one in labelled["results"][0]["spans"] if one["label"] == "PER"]
    asked = {"who": {"type": "span", "labels": ["PER"], "over": "answer"}}
    state = {"request": "far away", "answer": STATE}
    found = posted(deciding, "decisions", model="names", state=state, questions=asked)
    assert found["answers"]["who"]["spans"] == wanted


def test_long_states_are_refused_cut_or_read_in_windows(deciding: Running) -> None:
    body = {
        "model": "nli", "state": "cat sat on the mat " * 20,
        "questions": {"guard": QUESTIONS["guard"]},
    }  # fmt: skip
    refused = deciding.client.post("/v1/decisions", json=body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (400, "invalid_input", "state")
    cut = posted(deciding, "decisions", **body, options={"overflow": "truncate"})["meta"]
    assert (cut["processed_tokens"], cut["truncated"]) == (32, True)
    windows = {"overflow": "window", "window": {"tokens": 16, "overlap": 4}}
    whole = posted(deciding, "decisions", **body, options=windows)["meta"]
    assert whole["windows"] > 5
    assert whole["truncated"] is False


_GUARD = {"guard": QUESTIONS["guard"]}
_WHOLE = {"guard": {**QUESTIONS["guard"], "require_full_input": True}}
_LONG = "cat sat on the mat " * 20


def test_each_state_is_answered_as_a_request_of_its_own_would_be(deciding: Running) -> None:
    states = {
        "1": {"state": "the dog ran", "questions": _WHOLE},
        "far": {"state": {"request": "far", "answer": "away"}, "questions": QUESTIONS},
    }
    body = {"model": "nli", "state": STATE, "questions": QUESTIONS}
    found = posted(deciding, "decisions", **body, states=states)
    assert list(found.pop("states")) == ["1", "far"]
    found = posted(deciding, "decisions", **body, states=states)
    several = found.pop("states")
    for name, state in states.items():
        alone = posted(deciding, "decisions", model="nli", **state)
        assert several[name].keys() == alone.keys()
        assert _numbers(several[name]) == pytest.approx(_numbers(alone), abs=1e-5)
    alone = posted(deciding, "decisions", **body)
    assert found.keys() == alone.keys()
    assert found["usage"] == alone["usage"], "its own state's alone"
    assert _numbers(found) == pytest.approx(_numbers(alone), abs=1e-5)
    task = {"id": "a", "decisions": {**body, "states": states}}
    (result,) = posted(deciding, "bundle", tasks=[task])["results"]
    assert set(result["decisions"]["states"]) == {"1", "far"}


def test_all_wrong_questions_of_a_state_are_its_own_errors(deciding: Running) -> None:
    wrong = {"few": {"type": "choice", "choices": ["cat"]}}
    states = {"1": {"state": "the dog", "questions": wrong}}
    body = {"model": "nli", "state": STATE, "states": states}
    found = posted(deciding, "decisions", **body, questions=_GUARD)
    assert found["states"]["1"]["answers"]["few"]["error"] == "invalid_question"
    assert 0 <= found["answers"]["guard"]["noul"] <= 1
    turned = {"1": {"state": "the dog", "questions": _GUARD}}
    other = posted(deciding, "decisions", **{**body, "states": turned}, questions=wrong)
    assert other["answers"]["few"]["error"] == "invalid_question"
    assert other["usage"]["prompt_tokens"] == 0, "nothing of it was read"
    none = deciding.client.post("/v1/decisions", json={**body, "questions": wrong})
    assert (none.status_code, none.json()["error"]["code"]) == (400, "invalid_request")


def test_a_question_that_requires_all_of_a_long_state_fails_alone(deciding: Running) -> None:
    for options in ({}, {"overflow": "reject"}):
        body = {"model": "nli", "options": options, "state": _LONG, "questions": _WHOLE}
        states = {"short": {"state": STATE, "questions": _WHOLE}}
        found = posted(deciding, "decisions", **body, states=states)
        failed = found["answers"]["guard"]
        assert (failed["type"], failed["error"]) == ("noul", "max_length_exceeded")
        proven_one = found["states"]["short"]["answers"]["guard"]
        assert proven_one["input_coverage"] == "complete"
        free = posted(deciding, "decisions", model="nli", state=STATE, questions=_GUARD)
        assert proven_one["noul"] == pytest.approx(free["answers"]["guard"]["noul"], abs=1e-5)


def test_windows_prove_the_full_input_and_a_cut_excludes_it(deciding: Running) -> None:
    body = {"model": "nli", "state": _LONG, "questions": _WHOLE}
    windows = {"overflow": "window", "window": {"tokens": 16, "overlap": 4}}
    whole = posted(deciding, "decisions", **body, options=windows)
    assert whole["answers"]["guard"]["input_coverage"] == "complete"
    assert whole["meta"]["windows"] > 5
    both = {**body, "questions": {**_WHOLE, "free": QUESTIONS["guard"]}}
    cut = posted(deciding, "decisions", **both, options={"overflow": "truncate"})["answers"]
    assert cut["guard"]["error"] == "invalid_question"
    assert 0 <= cut["free"]["noul"] <= 1


def test_beside_one_that_fails_alone_others_are_still_refused_where_the_state_is_long(
    deciding: Running,
) -> None:
    questions = {**_WHOLE, "free": {"type": "noul", "criteria": "the cat ran"}}
    states = {"long": {"state": _LONG, "questions": questions}}
    body = {"model": "nli", "state": STATE, "questions": _GUARD, "states": states}
    refused = deciding.client.post("/v1/decisions", json=body)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "invalid_input")
    assert error["param"] == "states.long.state"
    assert "'free'" in error["message"]
    (result,) = posted(deciding, "bundle", tasks=[{"id": "a", "decisions": body}])["results"]
    assert (result["status"], result["error"]["param"]) == (400, "states.long.state")


def test_a_long_state_is_blamed_by_its_name(deciding: Running) -> None:
    states = {"long": {"state": _LONG, "questions": _GUARD}}
    body = {"model": "nli", "state": STATE, "questions": QUESTIONS, "states": states}
    refused = deciding.client.post("/v1/decisions", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "states.long.state")


WRONG = [
    ({"model": "topics"}, 422, "unsupported_surface", "model"),
    ({"model": "gone"}, 404, "model_not_found", "model"),
    ({"state": " "}, 400, "invalid_input", "state"),
    ({"state": {"a": {"b": "c"}}}, 400, "invalid_request", None),
    ({"questions": {}}, 400, "invalid_request", "questions"),
    ({"questions": {"x": {"type": "choice"}}}, 400, "invalid_request", "questions"),
    ({"question": _GUARD}, 400, "unknown_key", "question"),
    ({"states": [STATE]}, 400, "invalid_request", "states"),
    ({"states": {"1": {"state": STATE}}}, 400, "invalid_request", None),
    (
        {"states": {"1": {"state": " ", "questions": _GUARD}}},
        400,
        "invalid_input",
        "states.1.state",
    ),
    ({"states": {" ": {"state": STATE, "questions": _GUARD}}}, 400, "invalid_request", None),
    ({"states": {"1": {"state": STATE, "questions": _GUARD, "model": "nli"}}}, 400, None, None),
    ({"options": {"profile": "max_speed"}}, 400, "invalid_request", "options.profile"),
    ({"options": {"max_tokens": 10**9}}, 400, "invalid_value", "options.max_tokens"),
    ({"options": {"overflow": "window", "windows": 1}}, 400, "unknown_key", "options.windows"),
]


@pytest.mark.parametrize(("more", "status", "code", "param"), WRONG)
def test_what_cannot_be_decided_is_refused(
    deciding: Running, more: dict[str, Any], status: int, code: str | None, param: str | None
) -> None:
    body = {"model": "nli", "state": STATE, "questions": _GUARD, **more}
    response = deciding.client.post("/v1/decisions", json=body)
    error = response.json()["error"]
    assert response.status_code == status, error
    assert code is None or error["code"] == code, error
    assert param is None or error["param"] == param


def test_the_same_through_generate_and_as_a_card(deciding: Running) -> None:
    inputs = {"state": STATE, "questions": _GUARD}
    body = {"model": "nli", "task": "decisions", "inputs": inputs}
    (output,) = posted(deciding, "generate", **body)["outputs"]
    wanted = posted(deciding, "decisions", model="nli", state=STATE, questions=_GUARD)["answers"]
    found = json.loads(output["text"])["answers"]["guard"]["noul"]
    assert found == pytest.approx(wanted["guard"]["noul"], abs=1e-6)
    card = deciding.client.get("/v1/models/nli").json()
    assert card["surfaces"] == ["decisions", "classify"]
    types = {
        name: deciding.client.get(f"/v1/models/{name}").json()["question_types"]
        for name in ("nli", "names", "topics")
    }
    assert types == {"nli": ["choice", "noul", "score", "set"], "names": ["span"], "topics": []}


# ---- many at once --------------------------------------------------------------------------------


TASKS = [
    {"id": "a", "decisions": {"model": "nli", "state": STATE, "questions": _GUARD}},
    {"id": "b", "classify": {"model": "topics", "input": ["cat", "dog"]}},
    {"id": "c", "rerank": {"model": "ranks", "query": "cat", "documents": ["mat", "the cat"]}},
    {"id": "d", "decisions": {"model": "nli", "state": "far away", "questions": _GUARD}},
]


def test_a_bundle_has_what_each_route_would_answer(deciding: Running) -> None:
    results = posted(deciding, "bundle", tasks=TASKS)["results"]
    assert [(one["id"], one["status"]) for one in results] == [(name, 200) for name in "abcd"]
    for task, result in zip(TASKS, results, strict=True):
        (surface,) = task.keys() - {"id"}
        alone = posted(deciding, surface, **task[surface])  # type: ignore[arg-type]
        assert result[surface].keys() == alone.keys()
        assert _numbers(result[surface]) == pytest.approx(_numbers(alone), abs=1e-5)


def _numbers(value: Any) -> list[float]:
    """All numbers in JSON, in their order."""
    if isinstance(value, dict):
        return [number for one in value.values() for number in _numbers(one)]
    if isinstance(value, list):
        return [number for one in value for number in _numbers(one)]
    return [value] if isinstance(value, float | int) else []


def test_each_task_of_a_bundle_fails_alone(deciding: Running) -> None:
    tasks = [
        TASKS[0],
        {"id": "gone", "classify": {"model": "gone", "input": "cat"}},
        {"id": "other", "rerank": {"model": "nli", "query": "a", "documents": ["b"]}},
        {"id": "none"},
        {"id": "two", "classify": {}, "rerank": {}},
        {"id": "typo", "clasify": {}},
        {"id": "blank", "classify": {"model": "topics", "input": " "}},
        {"id": "long", "classify": {"model": "topics", "input": "cat " * 99}},
        {"id": "empty", "decisions": {"model": "nli", "state": STATE, "questions": {}}},
        TASKS[1],
    ]
    results = posted(deciding, "bundle", tasks=tasks)["results"]
    assert [(one["id"], one["status"], one.get("error", {}).get("code")) for one in results] == [
        ("a", 200, None),
        ("gone", 404, "model_not_found"),
        ("other", 422, "unsupported_surface"),
        ("none", 400, "invalid_request"),
        ("two", 400, "invalid_request"),
        ("typo", 400, "unknown_key"),
        ("blank", 400, "invalid_input"),
        ("long", 400, "invalid_input"),
        ("empty", 400, "invalid_request"),
        ("b", 200, None),
    ]
    told = {one["id"]: one["error"]["param"] for one in results if "error" in one}
    assert (told["blank"], told["long"], told["other"]) == ("input", "input.0", "model")


@pytest.mark.parametrize(
    "body",
    [
        {"tasks": []},
        {"tasks": [TASKS[0]] * 2},
        {"tasks": [{"classify": {"model": "topics", "input": "cat"}}]},
        {"tasks": [7]},
        {"tasks": [{"id": str(n)} for n in range(65)]},
        {"tasks": TASKS, "option": {}},
        {"tasks": TASKS, "options": {"deadline_ms": 0}},
    ],
)
def test_what_is_no_bundle_is_refused(deciding: Running, body: dict[str, Any]) -> None:
    assert deciding.client.post("/v1/bundle", json=body).status_code == 400


def test_a_deadline_that_passed_is_each_tasks_own_error(deciding: Running) -> None:
    new = {"id": "a", "classify": {"model": "topics", "input": "nobody has read this"}}
    (result,) = posted(deciding, "bundle", tasks=[new], options={"deadline_ms": 1e-3})["results"]
    assert (result["status"], result["error"]["code"]) == (504, "deadline_exceeded")


def test_bodies_of_one_model_are_read_in_one_batch(
    toys: None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, so that what the model is asked can be counted."""
    from jumar.engine.inline import InlineModel

    catalog.adopt(home / "nli")
    asked: list[int] = []
    busy, encode = threading.Event(), InlineModel.encode

    def counted(self: Any, texts: Any, **more: Any) -> Any:
        asked.append(len(texts))
        busy.set()
        return encode(self, texts, **more)

    monkeypatch.setattr(InlineModel, "encode", counted)
    service = Service(in_process=True, batching=Batching(most=32, window=0.2))
    with serving(home / "inline", "nli", service=service) as running:
        running.ready("nli")
        questions = [{"guard": {"type": "noul", "criteria": text}} for text in ("cat", "dog", "a")]
        tasks = [
            {"id": str(at), "decisions": {"model": "nli", "state": STATE, "questions": one}}
            for at, one in enumerate(questions)
        ]
        results = posted(running, "bundle", tasks=tasks)["results"]
    assert [one["status"] for one in results] == [200] * 3
    assert asked == [3]


# ---- goldens -------------------------------------------------------------------------------------


def pinned(folder: Path, name: str) -> None:
    """A model of the catalog whose files are pinned, so that goldens can belong to it."""
    files = {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.iterdir()
    }
    required = {"required": True}
    known().add_own(
        {
            "id": name,
            "summary": "A tiny NLI model.",
            "family": "decision",
            "tier": "experimental",
            "licence": "MIT",
            "tasks": {
                "decisions": {"inputs": {"state": required, "questions": required}},
                "entailment": {"inputs": {"texts": required, "hypotheses": required}},
            },
            "weights": {"model": {"source": str(folder), "files": files}},
            "backends": {"cpu": {"status": "unknown"}},
        }
    )


def test_goldens_are_recorded_and_keep_a_wrong_model_from_callers(
    toys: None, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    from jumar.engine import load
    from jumar.engine.answers import answers, digest
    from jumar.lab.golden import Facts, Golden, Key, record, usual_requests, write

    monkeypatch.setenv("JUMAR_GOLDENS", str(tmp_path))
    pinned(home / "nli", "pinned-nli")
    manifest = catalog.get("pinned-nli")
    requests = usual_requests("decisions", Facts(32))
    golden = Golden("pinned-nli", digest(manifest), "decisions", requests)
    with load("pinned-nli", backend="cpu") as placed:
        key = Key("cpu", placed.dtype, "")
        made = record(
            golden,
            key,
            lambda one: answers(placed, one.inputs, one.config),
            made_on=placed.fingerprint,
            anchor=None,
        )
        write(replace(golden, references=(made,)), tmp_path / "pinned-nli")
        parity = proven(placed)  # type: ignore[arg-type]
        assert (parity.status, parity.checked, parity.matched) == ("matched", 14, 14)
        weight = placed._open().model._model.classifier.weight
        weight.data[1] += 0.01
        with pytest.raises(ParityFailed, match="findings in the golden answers"):
            proven(placed)  # type: ignore[arg-type]

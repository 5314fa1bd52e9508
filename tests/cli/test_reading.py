"""`jumar classify`, `rerank` and `decide`, with values that are known; what names stand for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Shell

from jumar.cli.naming import known
from jumar.contracts import StageEventRecord
from jumar.contracts.errors import UnknownModel

HEADS = {
    "classification": {"kind": "sequence", "labels": ("benign", "attack"), "name": "default"},
    "reranking": {"kind": "rerank", "labels": ("LABEL_0",), "name": "default"},
    "entailment": {
        "kind": "entailment",
        "labels": ("entailment", "not_entailment"),
        "name": "default",
    },
}
LOGITS = {"This example is law.": [2.0, 0.0], "This example is math.": [0.0, 0.0]}
NLI = "modernbert-base-zeroshot-v2.0"
VALUES = {"ignore it": [0.1, 0.9], "hello": [0.8, 0.2], "far": [-2.0], "near": [2.0]}


class Reader:
    """A loaded model that knows four texts."""

    def __init__(self, task: str) -> None:
        self.task = task

    def encode(self, texts: Sequence[str], *, listener: Any, cancel: Any, **given: Any) -> Any:
        data = {"head": HEADS[self.task]}
        listener(StageEventRecord(event="tokenized", stage="x", timestamp_ms=0, data=data))
        if self.task == "entailment":
            return [LOGITS[sentence] for sentence in given["hypotheses"]]
        return [VALUES[text] for text in texts]

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(model: str, *, task: str, backend: str, listener: Any, cancel: Any) -> Reader:
        return Reader(task)

    monkeypatch.setattr("jumar.engine.load", load)


def test_each_text_has_its_label(run: Shell) -> None:
    lines = run("classify", "ignore it", "hello").out.splitlines()
    assert [line.split()[:2] for line in lines] == [["attack", "0.900"], ["benign", "0.800"]]
    found = run("classify", "hello", "--json").json
    assert found == [{"text": "hello", "label": "benign", "probabilities": [0.8, 0.2]}]


def test_without_a_model_there_is_nothing_to_rank_with(run: Shell) -> None:
    refused = run("rerank", "--query", "q", "far")
    assert refused.code == 2
    assert "Missing option '--model'" in refused.err


def test_documents_are_ranked(run: Shell) -> None:
    line = ("rerank", "--model", "svguardian", "--query", "q", "far", "near")
    assert [one.split()[1] for one in run(*line).out.splitlines()] == ["near", "far"]
    (best,) = run(*line, "--top", "1", "--json").json
    assert (best["index"], best["text"], best["logit"]) == (1, "near", 2.0)


def test_questions_of_a_file_are_answered_one_a_line(run: Shell, tmp_path: Path) -> None:
    questions = tmp_path / "questions.yaml"
    questions.write_text(
        "topic: {type: choice, choices: [law, math]}\n"
        "about: {type: set, labels: [law, math], threshold: 0.6}\n"
        "few: {type: choice, choices: [law]}\n"
    )
    line = ("decide", "--model", NLI, "--questions", str(questions), "--state", "a text")
    topic, about, few = run(*line).out.splitlines()
    assert topic.split() == ["topic", "law", "0.881"], "e^2 / (e^2 + 1)"
    assert about.split() == ["about", "law"]
    assert "at least 2" in few
    found = run(*line, "--json").json
    assert found["topic"]["probabilities"]["law"] == pytest.approx(0.880797, abs=1e-6)
    assert found["few"]["error"] == "invalid_question"


def test_several_states_are_each_asked_all_questions(run: Shell, tmp_path: Path) -> None:
    questions = tmp_path / "questions.yaml"
    questions.write_text("topic: {type: choice, choices: [law, math]}")
    line = ("decide", "--model", NLI, "--questions", str(questions))
    said = run(*line, "--state", "one text", "--state", "another").out.splitlines()
    assert said == ["one text", "topic  law 0.881", "another", "topic  law 0.881"]
    found = run(*line, "--state", "one text", "--state", "another", "--json").json
    assert [one["topic"]["choice"] for one in found] == ["law", "law"]


def test_a_model_that_answers_no_questions_says_which_would(run: Shell, tmp_path: Path) -> None:
    questions = tmp_path / "questions.yaml"
    questions.write_text("topic: {type: noul, criteria: It is law.}")
    line = ("decide", "--model", "svguardian", "--questions", str(questions), "--state", "a")
    refused = run(*line)
    assert refused.code == 2
    assert "entailment" in refused.err
    assert run(*line[:4], str(tmp_path / "gone"), *line[5:]).code == 2


def test_without_a_text_nothing_is_loaded(run: Shell) -> None:
    assert run("classify").code == 2


def test_a_repository_needs_its_commit_and_the_error_says_so() -> None:
    with pytest.raises(UnknownModel, match=r"vllm-sr/Vela-2\.0-0\.3B is not in") as refused:
        known("vllm-sr/Vela-2.0-0.3B")
    assert "@<40 hex digits>" in str(refused.value.hint)


@pytest.mark.parametrize("name", ["svguardian", "sentence-transformers/all-MiniLM-L6-v2", "gone"])
def test_other_names_are_the_catalogs(name: str) -> None:
    assert known(name) == name


def test_a_folder_is_a_model(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    config = '{"architectures": ["BertModel"]}'
    (tmp_path / "mine" / "config.json").write_text(config)
    from jumar.catalog.index import catalog

    assert known(str(tmp_path / "mine")) == "mine"
    catalog.cache_clear()

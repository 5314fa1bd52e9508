"""`jumar embed`, with vectors that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.cli.conftest import Shell

from jumar.contracts import StageEventRecord

np = pytest.importorskip("numpy", reason="vectors come as numpy arrays")

MEANING = {"rope": [1.0, 0.0], "ascender": [0.8, 0.6], "bread": [0.0, 1.0]}


class Encoder:
    """A loaded model that knows three words."""

    def __init__(self, seen: dict[str, Any]) -> None:
        self.seen = seen

    def encode(self, texts: Sequence[str], *, listener: Any, cancel: Any, **config: Any) -> Any:
        self.seen.update(texts=list(texts), config=config, cancel=cancel)
        if "bread" in texts:
            told = {"text": "Bread was cut off."}
            listener(StageEventRecord(event="warning", stage="x", timestamp_ms=0, data=told))
        return np.array([MEANING[text] for text in texts])

    def __enter__(self) -> Encoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.seen["closed"] = True


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the engine was asked for."""
    seen: dict[str, Any] = {}

    def load(model: str, *, task: str, backend: str, listener: Any, cancel: Any) -> Encoder:
        seen.update(model=model, task=task, backend=backend, cancel_of_load=cancel)
        return Encoder(seen)

    monkeypatch.setattr("jumar.engine.load", load)
    return seen


def test_texts_become_vectors(run: Shell) -> None:
    assert run("embed", "rope", "bread", "--json").json == [
        {"text": "rope", "vector": [1.0, 0.0]},
        {"text": "bread", "vector": [0.0, 1.0]},
    ]


def test_a_query_ranks_the_texts_by_cosine(run: Shell) -> None:
    lines = run("embed", "--query", "rope", "bread", "ascender").out.splitlines()
    assert [line.split()[0] for line in lines] == ["0.800", "0.000"]
    assert [line.split()[-1] for line in lines] == ["ascender", "bread"]


def test_a_ranking_as_json(run: Shell) -> None:
    ranking = run("embed", "--query", "rope", "bread", "ascender", "--json").json["ranking"]
    assert [row["text"] for row in ranking] == ["ascender", "bread"]
    assert ranking[0]["score"] == pytest.approx(0.8)


def test_texts_come_from_lines_of_a_file_or_of_stdin(run: Shell, asked: dict[str, Any]) -> None:
    (run.folder / "lines.txt").write_text("rope\n\nbread\n")
    run("embed", "ascender", "--file", "lines.txt")
    assert asked["texts"] == ["ascender", "rope", "bread"]
    run("embed", "--file", "-", stdin="bread\n")
    assert asked["texts"] == ["bread"]


def test_model_device_and_dimensions_are_passed_on(run: Shell, asked: dict[str, Any]) -> None:
    run("embed", "rope", "-m", "minilm", "--device", "cpu", "--dimensions", "2")
    assert (asked["model"], asked["task"], asked["backend"]) == ("minilm", "embeddings", "cpu")
    assert asked["config"] == {"dimensions": 2}
    assert asked["closed"]


@pytest.mark.parametrize("line", [("embed",), ("embed", "--query", "rope")])
def test_no_text_is_a_wrong_request(line: tuple[str, ...], run: Shell) -> None:
    assert run(*line).code == 2
    assert run.err.startswith("error[invalid_request]: There is no text.")


def test_a_file_that_cannot_be_read_is_named(run: Shell) -> None:
    assert run("embed", "--file", "nowhere.txt").code == 2
    assert run.err.startswith("error[invalid_input]: Cannot read the texts in nowhere.txt.")


def test_ranking_on_the_screen_and_a_file_of_vectors_exclude_each_other(run: Shell) -> None:
    run("embed", "--query", "rope", "bread", "--out", "v.npy")
    assert run.code == 2
    assert "Say one of them" in run.err
    assert list(run.folder.iterdir()) == []


def test_ctrl_c_stops_the_encoding_as_well_as_the_load(run: Shell, asked: dict[str, Any]) -> None:
    run("embed", "rope")
    assert asked["cancel"] is asked["cancel_of_load"] is not None


def test_what_was_cut_off_is_told(run: Shell) -> None:
    assert run("embed", "bread").err == "warning: Bread was cut off.\n"
    assert run("embed", "bread", "--quiet").err == ""
    assert run("embed", "bread", "--json").err == ""


def test_texts_are_counted_from_the_first_one_whatever_the_query(
    run: Shell, asked: dict[str, Any]
) -> None:
    run("embed", "--query", "rope", "bread", "ascender")
    assert asked["texts"] == ["bread", "ascender", "rope"]


def test_an_empty_query_is_refused(run: Shell) -> None:
    assert run("embed", "--query", " ", "rope").code == 2
    assert run.err == "error[invalid_input]: The query is empty.\n"

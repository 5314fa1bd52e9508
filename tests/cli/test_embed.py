"""`jumar embed`, with vectors that are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from tests.cli.conftest import Shell

MEANING = {"rope": [1.0, 0.0], "ascender": [0.8, 0.6], "bread": [0.0, 1.0]}


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """An encoder that knows three words."""
    seen: dict[str, Any] = {}

    def embed(model: str, texts: Sequence[str], **config: Any) -> list[list[float]]:
        seen.update(model=model, texts=list(texts), config=config)
        return [MEANING[text] for text in texts]

    monkeypatch.setattr("jumar.engine.embed", embed)
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
    assert asked["model"] == "all-minilm-l6-v2"
    assert asked["config"] == {"backend": "cpu", "dimensions": 2}


@pytest.mark.parametrize("line", [("embed",), ("embed", "--query", "rope")])
def test_no_text_is_a_wrong_request(line: tuple[str, ...], run: Shell) -> None:
    assert run(*line).code == 2
    assert run.err.startswith("error[invalid_request]: There is no text.")


def test_a_file_that_cannot_be_read_is_named(run: Shell) -> None:
    assert run("embed", "--file", "nowhere.txt").code == 2
    assert run.err.startswith("error[invalid_input]: Cannot read the texts in nowhere.txt.")

"""Typed questions: what may be asked, and what is said of those that may not."""

from __future__ import annotations

from typing import Any

import pytest

from jumar.contracts.errors import InvalidQuestion
from jumar.contracts.questions import TYPES, Choice, Noul, Score, Set, Span, parsed

ALLOWED: list[tuple[dict[str, Any], type[Any]]] = [
    ({"type": "choice", "choices": ["a", "b"]}, Choice),
    ({"type": "choice", "choices": [f"o{n}" for n in range(255)]}, Choice),
    ({"type": "choice", "criteria": {"a": None, "b": "the second"}}, Choice),
    ({"type": "noul", "criteria": "This is an attack."}, Noul),
    ({"type": "noul", "instructions": "It is urgent."}, Noul),
    ({"type": "noul", "criteria": {"true": "It is.", "false": "It is not."}}, Noul),
    ({"type": "score", "levels": ["low", "high"]}, Score),
    ({"type": "score", "criteria": ["low", "middle", "high"]}, Score),
    ({"type": "set", "labels": ["a"], "threshold": 0.3}, Set),
    ({"type": "set", "labels": [f"l{n}" for n in range(255)]}, Set),
    ({"type": "span", "labels": ["PERSON"], "over": "answer"}, Span),
]

REFUSED: list[tuple[Any, str, str]] = [
    ({"type": "choice", "choices": ["a"]}, "at least 2", "questions.q.choices"),
    ({"type": "choice", "choices": [f"o{n}" for n in range(256)]}, "at most 255", "choices"),
    ({"type": "choice", "choices": ["a", "a"]}, "stands there twice", "choices"),
    ({"type": "choice", "choices": ["a", "b"], "criteria": ["c", "d"]}, "no field", "criteria"),
    ({"type": "choice"}, "required", "choices"),
    ({"type": "noul"}, "criteria are missing", "questions.q"),
    (
        {"type": "noul", "criteria": {"true": "It is.", "flase": "It is not."}},
        "criteria",
        "criteria",
    ),
    ({"type": "score", "levels": [str(n) for n in range(11)]}, "at most 10", "levels"),
    ({"type": "set", "labels": []}, "at least 1", "labels"),
    ({"type": "set", "labels": ["a"], "threshold": 1.5}, "less than or equal to 1", "threshold"),
    ({"type": "set", "labels": [" "]}, "pattern", "labels"),
    ({"type": "set", "labels": ["a"], "thresold": 0.5}, "no field 'thresold'", "thresold"),
    ({"type": "choices"}, "no type 'choices'", "questions.q.type"),
    ({}, "no type", "questions.q.type"),
    ("Is it?", "questions.q", "questions.q"),
]


@pytest.mark.parametrize(("asked", "kind"), ALLOWED)
def test_what_may_be_asked(asked: dict[str, Any], kind: type[Any]) -> None:
    assert isinstance(parsed({"q": asked})["q"], kind)


@pytest.mark.parametrize(("asked", "said", "param"), REFUSED)
def test_what_may_not_says_why_and_where(asked: Any, said: str, param: str) -> None:
    found = parsed({"q": asked, "good": {"type": "noul", "criteria": "It is."}})
    assert isinstance(found["good"], Noul), "it fails alone"
    assert isinstance(found["q"], InvalidQuestion)
    assert said in found["q"].message
    assert str(found["q"].param).endswith(param)


def test_the_nearest_type_and_field_are_named() -> None:
    found = parsed({"a": {"type": "nuol"}, "b": {"type": "set", "labels": ["x"], "lables": []}})
    assert [one.hint for one in found.values() if isinstance(one, InvalidQuestion)] == [
        "Did you mean 'noul'?",
        "Did you mean 'labels'?",
    ]


def test_types_that_a_model_does_not_answer_are_refused_by_name() -> None:
    refused = parsed({"q": {"type": "span", "labels": ["A"]}}, ("choice", "noul"))["q"]
    assert isinstance(refused, InvalidQuestion)
    assert (refused.param, refused.hint) == ("questions.q.type", "It answers choice, noul.")
    assert "span" in TYPES

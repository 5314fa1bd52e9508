"""Questions as pairs of sentences, and answers by formulas that are worked out by hand here."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.contracts.errors import InvalidInput, InvalidModelOutput, InvalidRequest
from jumar.reporting.decisions import Asked, document
from jumar.reporting.entailment import Sides, sides_of
from jumar.reporting.readings import Head, Span

NLI = Head("entailment", ("contradiction", "neutral", "entailment"))
LN2, LN3 = math.log(2), math.log(3)


def asked(**question: Any) -> Asked:
    return Asked.of("A cat sat.", {"q": question})


def answer(logits: list[list[float]], **question: Any) -> dict[str, Any]:
    return asked(**question).answers(NLI, logits)["q"]


# ---- which label is which ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (("contradiction", "neutral", "entailment"), Sides(2, 0)),
        (("ENTAILMENT", "NEUTRAL", "CONTRADICTION"), Sides(0, 2)),
        (("neutral", "contradiction", "entailment"), Sides(2, 1)),
        (("entailment", "not_entailment"), Sides(0, 1)),
        (("not-entailment", "entailment"), Sides(1, 0)),
        (("LABEL_0", "LABEL_1", "LABEL_2"), None),
        (("entailment", "neutral"), None),
        (("entailment", "entailment_too", "contradiction"), None),
        (("entailment", "neutral", "not_entailment"), None),
        (("positive", "negative"), None),
    ],
)
def test_the_two_labels_are_found_by_name_and_never_guessed(
    labels: tuple[str, ...], wanted: Sides | None
) -> None:
    assert sides_of(labels) == wanted


# ---- sentences -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "sentences"),
    [
        (
            {"type": "choice", "choices": ["law", "math"]},
            ["This example is law.", "This example is math."],
        ),
        (
            {"type": "choice", "instructions": "It is about {}.", "choices": ["law", "math"]},
            ["It is about law.", "It is about math."],
        ),
        (
            {"type": "choice", "instructions": "Which team?", "choices": ["law", "math"]},
            ["Which team? law", "Which team? math"],
        ),
        (
            {"type": "choice", "instructions": "{}", "criteria": {"a": "It is A.", "b": None}},
            ["It is A.", "b"],
        ),
        ({"type": "noul", "criteria": "There is a cat."}, ["There is a cat."]),
        ({"type": "noul", "instructions": "There is a cat."}, ["There is a cat."]),
        (
            {"type": "noul", "instructions": "I think: {}", "criteria": "A cat."},
            ["I think: A cat."],
        ),
        ({"type": "noul", "criteria": {"true": "A.", "false": "B."}}, ["A.", "B."]),
        (
            {"type": "score", "levels": ["calm", "angry"], "instructions": "He is {}."},
            ["He is calm.", "He is angry."],
        ),
        ({"type": "set", "labels": ["cat"]}, ["This example is cat."]),
    ],
)
def test_each_option_becomes_a_sentence(question: dict[str, Any], sentences: list[str]) -> None:
    found = asked(**question)
    assert found.task == "entailment"
    assert found.inputs == {"texts": ["A cat sat."] * len(sentences), "hypotheses": sentences}


@pytest.mark.parametrize(
    ("state", "text"),
    [
        ("a", "a"),
        (["a", "b"], "a\nb"),
        ({"request": "a", "answer": "b"}, "request: a\nanswer: b"),
    ],
)
def test_a_state_of_parts_is_one_text(state: Any, text: str) -> None:
    found = Asked.of(state, {"q": {"type": "noul", "criteria": "It is."}})
    assert found.inputs["texts"] == [text]


@pytest.mark.parametrize("state", ["", " ", [], {}, 7, None, {"a": {"b": "c"}}, [["a"]]])
def test_what_is_no_text_is_refused(state: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        Asked.of(state, {"q": {"type": "noul", "criteria": "It is."}})
    assert refused.value.param == "state"


# ---- formulas ------------------------------------------------------------------------------------


def test_a_choice_is_the_softmax_of_the_entailment_logits() -> None:
    """Logits 0, ln 2, ln 3: shares 1, 2, 3 of 6. The other logits do not count."""
    found = answer(
        [[5.0, 0.0, 0.0], [-5.0, 1.0, LN2], [0.0, 9.0, LN3]],
        type="choice",
        choices=["a", "b", "c"],
    )
    assert found["choice"] == "c"
    assert found["probabilities"] == pytest.approx({"a": 1 / 6, "b": 2 / 6, "c": 3 / 6})
    assert found["confidence"] == pytest.approx(0.5)


def test_a_noul_is_entailment_against_contradiction_and_neutral_does_not_count() -> None:
    assert answer([[0.0, 50.0, LN3]], type="noul", criteria="x") == {
        "type": "noul",
        "noul": pytest.approx(0.75),
    }


def test_a_noul_of_two_sentences_is_the_choice_of_them() -> None:
    both = {"true": "It is.", "false": "It is not."}
    found = answer([[9.0, 0.0, LN3], [0.0, 0.0, 0.0]], type="noul", criteria=both)
    assert found["noul"] == pytest.approx(0.75)


def test_labels_of_a_set_are_each_by_themselves() -> None:
    found = answer(
        [[0.0, 0.0, LN3], [LN3, 0.0, 0.0], [0.0, 0.0, 0.0]], type="set", labels=["a", "b", "c"]
    )
    assert found["probabilities"] == pytest.approx({"a": 0.75, "b": 0.25, "c": 0.5})
    assert found["selected"] == ["a", "c"], "at the threshold it is picked"
    strict = answer([[0.0, 0.0, LN3]], type="set", labels=["a"], threshold=0.8)
    assert strict["selected"] == []


def test_a_score_is_the_mean_level() -> None:
    """Shares 1/6, 2/6, 3/6 of the levels 0, 1, 2: 2/6 + 6/6 = 8/6."""
    found = answer(
        [[0.0, 0.0, 0.0], [0.0, 0.0, LN2], [0.0, 0.0, LN3]],
        type="score",
        levels=["low", "middle", "high"],
    )
    assert found["score"] == pytest.approx(8 / 6)
    assert found["probabilities"] == pytest.approx({"0": 1 / 6, "1": 2 / 6, "2": 3 / 6})
    assert found["legend"] == {"0": "low", "1": "middle", "2": "high"}
    assert found["confidence"] == pytest.approx(0.5)


_LOGITS = st.floats(-1e4, 1e4, allow_nan=False, width=32)


@given(st.lists(st.tuples(_LOGITS, _LOGITS, _LOGITS), min_size=2, max_size=10))
def test_whatever_the_logits_answers_are_probabilities(rows: list[Any]) -> None:
    names = [f"o{place}" for place in range(len(rows))]
    choice = answer(rows, type="choice", choices=names)
    assert sum(choice["probabilities"].values()) == pytest.approx(1)
    score = answer(rows, type="score", levels=names)
    assert 0 <= score["score"] <= len(rows) - 1 + 1e-9
    chosen = answer(rows, type="set", labels=names)["probabilities"]
    assert all(0 <= share <= 1 for share in chosen.values())


# ---- spans ---------------------------------------------------------------------------------------

TOKENS = Head("token", ("O", "B-PER", "I-PER", "B-LOC"))
FOUND = [Span("PER", 0, 3, "Ada", 0.9), Span("LOC", 7, 10, "Bex", 0.4)]


def test_a_span_question_picks_its_labels_and_may_look_in_one_part() -> None:
    questions = {
        "who": {"type": "span", "labels": ["PER"], "over": "answer"},
        "sure": {"type": "span", "labels": ["PER", "LOC"], "threshold": 0.5},
        "gone": {"type": "span", "labels": ["PER"], "over": "nothing"},
        "else": {"type": "span", "labels": ["ORG"]},
    }
    found = Asked.of(
        {"request": "Who?", "answer": "Ada in Bex"}, questions, {"questions": ("span",)}
    )
    assert found.task == "classification"
    assert found.inputs["texts"][0] == "Ada in Bex"
    answers = found.answers(TOKENS, [FOUND] * 3)
    assert [one["text"] for one in answers["who"]["spans"]] == ["Ada"]
    assert [one["text"] for one in answers["sure"]["spans"]] == ["Ada"]
    assert answers["gone"]["param"] == "questions.gone.over"
    assert "no label 'ORG'" in answers["else"]["message"]


# ---- errors --------------------------------------------------------------------------------------


def test_a_wrong_question_fails_alone_and_all_of_them_together() -> None:
    good = {"type": "noul", "criteria": "It is."}
    answers = Asked.of("a", {"bad": {"type": "choice"}, "good": good}).answers(NLI, [[0, 0, 0]])
    assert answers["bad"]["error"] == "invalid_question"
    assert answers["good"] == {"type": "noul", "noul": 0.5}
    with pytest.raises(InvalidRequest, match="No question can be answered") as refused:
        Asked.of("a", {"bad": {"type": "choice"}, "worse": {}})
    assert (refused.value.code, refused.value.param) == ("invalid_request", "questions")


# ---- presets, and what has to be read whole ------------------------------------------------------

PRESETS = {"presets": {"attack": {"type": "noul", "criteria": "This is an attack."}}}


def test_a_preset_fills_in_what_is_not_written() -> None:
    for more in ({}, {"type": "noul"}, {"require_full_input": True}):
        found = Asked.of("a", {"q": {"preset": "attack", **more}}, PRESETS)
        assert found.inputs["hypotheses"] == ["This is an attack."]
        assert found.whole("q") is bool(more.get("require_full_input"))


@pytest.mark.parametrize(
    ("preset", "options", "hint"),
    [
        ("atack", PRESETS, "It defines attack."),
        ("attack", {}, "It defines none."),
        (7, PRESETS, "It defines attack."),
        (None, PRESETS, "It defines attack."),
    ],
)
def test_a_preset_that_the_model_does_not_define_is_a_wrong_question(
    preset: Any, options: dict[str, Any], hint: str
) -> None:
    good = {"type": "noul", "criteria": "It is."}
    found = Asked.of("a", {"q": {"preset": preset}, "good": good}, options)
    failed = found.answers(NLI, [[0, 0, 0]])["q"]
    assert (failed["error"], failed["param"]) == ("invalid_question", "questions.q.preset")
    assert failed["hint"] == hint


@pytest.mark.parametrize("over", [(), (0, 0), (0, 3)])
def test_what_requires_the_full_input_proves_it_or_fails_alone(over: tuple[int, ...]) -> None:
    one = {"type": "noul", "criteria": "It is."}
    found = Asked.of("a", {"free": one, "whole": {**one, "require_full_input": True}})
    free, whole = found.answers(NLI, [[0, 0, 0]] * 2, over).values()
    assert free == {"type": "noul", "noul": 0.5}
    if any(over):
        assert (whole["type"], whole["error"]) == ("noul", "max_length_exceeded")
        assert "3 tokens more" in whole["message"]
        assert "noul" not in whole and "input_coverage" not in whole
    else:
        assert whole == {"type": "noul", "noul": 0.5, "input_coverage": "complete"}


def test_an_option_whose_sentence_leaves_too_little_room_costs_the_whole_question() -> None:
    choice = {"type": "choice", "choices": ["a", "b"], "require_full_input": True}
    found = Asked.of("a", {"q": choice}).answers(NLI, [[0, 0, 0]] * 2, (2, 0))
    assert found["q"]["error"] == "max_length_exceeded"


@pytest.mark.parametrize(
    "wrong",
    [
        {"require_full_input": "true"},
        {"require_full_input": 1},
        {"require_full_input": None},
        {"require_full_input": True, "over": "answer"},
    ],
)
def test_full_input_is_true_or_false_and_is_not_one_part(wrong: dict[str, Any]) -> None:
    questions = {"q": {"type": "span", "labels": ["PER"], **wrong}}
    with pytest.raises(InvalidRequest):
        Asked.of({"request": "Who?", "answer": "Ada"}, questions, {"questions": ("span",)})
    if "over" in wrong:
        alone = Asked.of({"answer": "Ada", "x": " "}, questions, {"questions": ("span",)})
        assert alone.whole("q"), "the only part with words in it is all of the state"


def test_full_input_and_a_cut_exclude_each_other() -> None:
    question = {"type": "noul", "criteria": "It is.", "require_full_input": True}
    with pytest.raises(InvalidRequest, match="cut off"):
        Asked.of("a", {"q": question}, cuts=True)


def test_an_error_about_a_row_names_its_question() -> None:
    found = Asked.of(
        "a",
        {"x": {"type": "choice", "choices": ["a", "b"]}, "y": {"type": "noul", "criteria": "It."}},
    )
    error = InvalidInput("Text 2 has 5 tokens more than 32.", param="inputs.texts.2")
    blamed = found.blamed(error)
    assert "'y'" in blamed.message
    assert blamed.message.endswith("has 5 tokens more than 32.")
    assert blamed.param == "state"
    other = InvalidInput("Something else.", param="inputs")
    assert found.blamed(other) is other


def test_nan_is_no_answer() -> None:
    with pytest.raises(InvalidModelOutput):
        document({"q": {"noul": math.nan}})

"""Typed questions by entailment, as transformers' own zero-shot pipeline answers them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from jumar import catalog
from jumar.catalog.index import catalog as known
from jumar.contracts.errors import (
    InvalidInput,
    InvalidModelOutput,
    InvalidRequest,
    WeightsUnavailable,
)
from jumar.reporting.readings import Head

if TYPE_CHECKING:
    from embedded import Embedded

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
tiny = pytest.importorskip("tiny_checkpoints")

# An order in which a guess by place would be wrong; transformers takes the first for the opposite.
LABELS = ("contradiction", "entailment", "neutral")
STATE = "a cat sat on the mat and the dog ran far away"
OPTIONS = ["cat", "dog", "mat", "far away"]
LONG = "cat sat on the mat and the dog ran far away " * 5
CHOICE = {"type": "choice", "choices": OPTIONS}
SET = {"type": "set", "labels": OPTIONS}


@pytest.fixture(scope="module")
def home(few_threads: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is adopted here is nobody else's."""
    yield tmp_path_factory.mktemp("nli")
    known.cache_clear()


def loaded(folder: Path) -> Embedded:
    from embedded import Embedded

    return Embedded(catalog.adopt(folder).id, {"model": folder})


@pytest.fixture(scope="module")
def bert(home: Path) -> Embedded:
    return loaded(tiny.bert_head(home / "bert", "SequenceClassification", LABELS))


@pytest.fixture(scope="module")
def modern(home: Path) -> Embedded:
    two = ("entailment", "not_entailment")
    return loaded(tiny.modern_bert_head(home / "modern", two))


@pytest.fixture(params=["bert", "modern"])
def nli(request: pytest.FixtureRequest) -> Embedded:
    found: Embedded = request.getfixturevalue(request.param)
    return found


def decided(model: Embedded, state: str, config: dict[str, Any], **questions: Any) -> Any:
    told = model.answer({"state": state, "questions": questions}, **config)
    return json.loads(told.bytes)["answers"]


def zero_shot(model: Embedded, state: str, **given: Any) -> dict[str, float]:
    """What transformers says of each option."""
    import transformers

    pipeline = transformers.pipeline(
        "zero-shot-classification", model=str(model.weights["model"]), device="cpu"
    )
    found = pipeline(state, candidate_labels=OPTIONS, **given)
    return dict(zip(found["labels"], found["scores"], strict=True))


def logits_of(model: Embedded, premise: str, hypothesis: str) -> list[float]:
    """Of one pair, without padding, straight from transformers."""
    import transformers

    folder = model.weights["model"]
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    head = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        logits = head(**tokenizer(premise, hypothesis, return_tensors="pt")).logits
    return list(logits[0].tolist())


def test_a_choice_is_what_transformers_zero_shot_pipeline_says(nli: Embedded) -> None:
    wanted = zero_shot(nli, STATE)
    found = decided(nli, STATE, {}, topic=CHOICE)["topic"]
    assert found["probabilities"] == pytest.approx(wanted, abs=1e-5)
    assert found["choice"] == max(wanted, key=wanted.__getitem__)
    assert max(wanted.values()) - min(wanted.values()) > 0.05, "options are told apart"


def test_instructions_are_its_template(nli: Embedded) -> None:
    wanted = zero_shot(nli, STATE, hypothesis_template="the {} sat")
    asked = {**CHOICE, "instructions": "the {} sat"}
    found = decided(nli, STATE, {}, topic=asked)["topic"]
    assert found["probabilities"] == pytest.approx(wanted, abs=1e-5)


def test_a_set_is_its_answer_for_several_labels(nli: Embedded) -> None:
    wanted = zero_shot(nli, STATE, multi_label=True)
    found = decided(nli, STATE, {}, about=SET)["about"]
    assert found["probabilities"] == pytest.approx(wanted, abs=1e-5)


def test_a_noul_is_the_softmax_of_two_logits_worked_out_by_hand(bert: Embedded) -> None:
    logits = logits_of(bert, STATE, "the cat sat")
    wanted = torch.tensor([logits[0], logits[1]]).softmax(0)[1].item()
    found = decided(bert, STATE, {}, q={"type": "noul", "criteria": "the cat sat"})["q"]
    assert found["noul"] == pytest.approx(wanted, abs=1e-5)


def test_a_score_is_the_mean_level_worked_out_by_hand(nli: Embedded) -> None:
    levels = ["a cat", "the dog", "far away"]
    place = nli.model.head.labels.index("entailment")
    entailed = [logits_of(nli, STATE, f"This example is {one}.")[place] for one in levels]
    shares = torch.tensor(entailed).softmax(0)
    wanted = (shares * torch.arange(3)).sum().item()
    found = decided(nli, STATE, {}, q={"type": "score", "levels": levels})["q"]
    assert found["score"] == pytest.approx(wanted, abs=1e-5)


def test_the_premise_stands_first(bert: Embedded) -> None:
    """A positive control: the other way round there are other logits."""
    run = bert.prepared({"state": STATE, "questions": {"q": CHOICE}}, {})
    found = bert.model.encode(run)
    for option, row in zip(OPTIONS, found, strict=True):
        sentence = f"This example is {option}."
        assert row == pytest.approx(logits_of(bert, STATE, sentence), abs=1e-4)
    turned = logits_of(bert, "This example is cat.", STATE)
    assert found[0] != pytest.approx(turned, abs=1e-3)


def test_company_changes_no_answer(nli: Embedded) -> None:
    alone = decided(nli, STATE, {}, topic=CHOICE)["topic"]
    both = decided(nli, STATE, {"batch_size": 3}, about=SET, topic=CHOICE)
    assert both["topic"]["probabilities"] == pytest.approx(alone["probabilities"], abs=1e-5)


# ---- long texts ----------------------------------------------------------------------------------


def test_a_state_over_the_limit_is_refused_and_its_question_named(nli: Embedded) -> None:
    with pytest.raises(InvalidInput, match="question 'topic' the state .* tokens more") as refused:
        decided(nli, LONG, {}, topic=CHOICE)
    assert refused.value.param == "state"


def test_cut_off_it_is_the_state_that_loses_its_end_as_in_transformers(nli: Embedded) -> None:
    found = decided(nli, LONG, {"overflow": "truncate"}, topic=CHOICE)["topic"]
    assert found["probabilities"] == pytest.approx(zero_shot(nli, LONG), abs=1e-5)


def test_in_windows_a_sentence_follows_where_it_follows_most(bert: Embedded) -> None:
    """By hand: each window with the sentence; the one in which entailment leads most counts."""
    words, sentence = LONG.split(), "the cat sat"
    size = {"overflow": "window", "window_tokens": 16, "window_overlap": 0}
    room = 16 - 3 - len(sentence.split())
    parts = [" ".join(words[at : at + room]) for at in range(0, len(words), room)]
    logits = [logits_of(bert, part, sentence) for part in parts]
    best = max(logits, key=lambda row: row[1] - row[0])
    wanted = torch.tensor([best[0], best[1]]).softmax(0)[1].item()
    found = decided(bert, LONG, size, q={"type": "noul", "criteria": sentence})["q"]
    assert found["noul"] == pytest.approx(wanted, abs=1e-5)
    assert len({round(row[1] - row[0], 3) for row in logits}) > 1, "windows differ"


@pytest.mark.parametrize("overflow", ["truncate", "window"])
def test_a_sentence_that_leaves_the_state_no_room_is_an_error(
    bert: Embedded, overflow: str
) -> None:
    with pytest.raises(InvalidInput, match="leaves it no room"):
        decided(bert, STATE, {"overflow": overflow}, q={"type": "noul", "criteria": LONG})


def test_a_wide_overlap_beside_a_long_sentence_still_reads_on(bert: Embedded) -> None:
    size = {"overflow": "window", "window_tokens": 16, "window_overlap": 8}
    asked = {"type": "noul", "criteria": "the cat sat on the mat and the dog"}
    assert 0 <= decided(bert, LONG, size, q=asked)["q"]["noul"] <= 1


# ---- what cannot be answered ---------------------------------------------------------------------


def test_labels_without_names_are_refused_and_never_guessed(home: Path) -> None:
    """The same weights, only unnamed: as a folder a classifier, as a decision model an error."""
    from jumar.devices import place
    from jumar.runtime.families.base import LoadPlan
    from jumar.runtime.families.decision import Decision

    folder = tiny.bert_head(home / "unnamed", "SequenceClassification", ("x", "y", "z"))
    manifest = catalog.adopt(folder)
    assert (manifest.family, list(manifest.tasks)) == ("classifier", ["classification"])
    plan = LoadPlan(manifest, "decisions", {}, {"model": folder}, place("cpu"))
    with pytest.raises(WeightsUnavailable, match="says entailment: it has x, y, z"):
        Decision().load(plan, None)  # type: ignore[arg-type]


def test_a_wrong_question_fails_alone(bert: Embedded) -> None:
    found = decided(bert, STATE, {}, bad={"type": "choice", "choices": ["a"]}, topic=CHOICE)
    assert found["bad"]["error"] == "invalid_question"
    assert found["topic"]["choice"] in OPTIONS
    with pytest.raises(InvalidRequest, match="No question"):
        decided(bert, STATE, {}, bad={"type": "span", "labels": ["PER"]})


def test_nan_is_a_typed_error(bert: Embedded) -> None:
    weight = bert.model._model.classifier.weight
    before = weight.detach().clone()
    try:
        with torch.no_grad():
            weight[0, 0] = float("nan")
        with pytest.raises(InvalidModelOutput):
            decided(bert, STATE, {}, topic=CHOICE)
    finally:
        with torch.no_grad():
            weight.copy_(before)


# ---- the same model's other tasks ----------------------------------------------------------------


def test_one_loaded_model_tells_its_labels_too(bert: Embedded) -> None:
    """Pairs as a classifier: probabilities of its labels; as entailment: the logits behind them."""
    assert list(bert.manifest.tasks) == ["decisions", "entailment", "classification"]
    logits = logits_of(bert, STATE, "the cat sat")
    run = _run(bert, "entailment", {"texts": [STATE], "hypotheses": ["the cat sat"]})
    assert bert.model.encode(run)[0] == pytest.approx(logits, abs=1e-4)
    assert bert.model.head_for("entailment").kind == "entailment"
    run = _run(bert, "classification", {"texts": [STATE], "text_pairs": ["the cat sat"]})
    wanted = torch.tensor(logits).softmax(0).numpy()
    assert bert.model.encode(run)[0] == pytest.approx(wanted, abs=1e-5)
    assert bert.model.head_for("classification") == Head("sequence", LABELS)


def test_a_token_head_answers_where(home: Path) -> None:
    folder = tiny.bert_head(home / "names", "TokenClassification", ("O", "B-PER", "I-PER", "B-LOC"))
    names = loaded(folder)
    run = _run(names, "classification", {"texts": [STATE]})
    (wanted,) = names.model.encode(run)
    assert wanted, "there is something to find"
    asked = {"state": STATE, "questions": {"who": {"type": "span", "labels": ["PER"]}}}
    (draft,) = names.model.generate(_run(names, "decisions", asked))
    found = json.loads(draft.text)["answers"]["who"]["spans"]
    assert [one["text"] for one in found] == [one.text for one in wanted if one.label == "PER"]


def _run(model: Embedded, task: Any, inputs: dict[str, Any]) -> Any:
    from jumar.contracts.requests import GenerateRequest
    from jumar.runtime.run import Run

    request = GenerateRequest(task=task, model=model.manifest.id, backend="cpu", inputs=inputs)
    resolved = catalog.resolve(request)
    return Run(resolved, model.family.prepare(resolved))

"""Labels, scores, spans and ranks: as transformers computes them, in whatever company."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar import catalog
from jumar.catalog.index import catalog as known
from jumar.contracts.errors import InvalidInput, WeightsUnavailable
from jumar.reporting.readings import Head, Span, ranked, shown, sigmoid
from jumar.runtime.families.classifier.heads import head_of
from jumar.runtime.families.classifier.spans import Word, spans

if TYPE_CHECKING:
    from embedded import Embedded

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
tiny = pytest.importorskip("tiny_checkpoints")

TEXTS = ["a cat sat on the mat", "the dog ran far away and sat", "cat", "the mat"]
LONG = "cat sat on the mat and the dog ran far away " * 5
SEVERAL = "multi_label_classification"


def loaded(folder: Path) -> Embedded:
    from embedded import Embedded

    return Embedded(catalog.adopt(folder).id, {"model": folder})


def values(model: Embedded, inputs: dict[str, Any], **config: Any) -> Any:
    return model.model.encode(model.prepared(inputs, config))


def by_hand(folder: Path, kind: str, *text: str) -> np.ndarray:
    """The logits of one text or pair, without padding, straight from transformers."""
    import transformers

    inputs = transformers.AutoTokenizer.from_pretrained(folder)(*text, return_tensors="pt")
    model = getattr(transformers, f"AutoModelFor{kind}").from_pretrained(folder).eval()
    with torch.no_grad():
        return model(**inputs).logits[0].numpy()


@pytest.fixture(scope="module")
def home(few_threads: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What is adopted here is nobody else's."""
    yield tmp_path_factory.mktemp("heads")
    known.cache_clear()


@pytest.fixture(scope="module")
def sequence(home: Path) -> Embedded:
    labels = ("math", "law", "other")
    return loaded(tiny.bert_head(home / "topics", "SequenceClassification", labels))


@pytest.fixture(scope="module")
def reranker(home: Path) -> Embedded:
    return loaded(tiny.bert_head(home / "ranks", "SequenceClassification", ("LABEL_0",)))


@pytest.fixture(scope="module")
def names(home: Path) -> Embedded:
    labels = ("O", "B-PER", "I-PER", "B-LOC")
    return loaded(tiny.bert_head(home / "names", "TokenClassification", labels))


def test_probabilities_are_the_softmax_of_what_transformers_says(sequence: Embedded) -> None:
    found = values(sequence, {"texts": TEXTS * 3})
    for text, row in zip(TEXTS * 3, found, strict=True):
        logits = by_hand(sequence.weights["model"], "SequenceClassification", text)
        wanted = torch.tensor(logits).softmax(0).numpy()
        assert row == pytest.approx(wanted, abs=1e-5)
    assert len({tuple(row) for row in found}) == len(TEXTS), "texts are told apart"


def test_several_labels_at_once_have_a_sigmoid_each(home: Path) -> None:
    labels = ("rude", "spam")
    folder = tiny.bert_head(home / "flags", "SequenceClassification", labels, SEVERAL)
    model = loaded(folder)
    logits = by_hand(folder, "SequenceClassification", "cat")
    found = values(model, {"texts": "cat"})[0]
    assert found == pytest.approx([sigmoid(x) for x in logits.tolist()], abs=1e-5)
    assert model.model.head == Head("scores", labels)


def test_a_document_is_read_with_its_query_before_it(reranker: Embedded) -> None:
    found = values(reranker, {"query": "the cat", "texts": TEXTS})
    for text, (logit,) in zip(TEXTS, found, strict=True):
        folder = reranker.weights["model"]
        wanted = by_hand(folder, "SequenceClassification", "the cat", text)[0]
        assert logit == pytest.approx(wanted, abs=1e-4)
        swapped = by_hand(folder, "SequenceClassification", text, "the cat")[0]
        assert abs(swapped - wanted) > 1e-3, "the order counts"


def test_queries_of_several_callers_each_go_with_their_own_document(reranker: Embedded) -> None:
    together = values(reranker, {"query": ["cat", "the dog ran"], "texts": ["mat", "mat"]})
    alone = [values(reranker, {"query": q, "texts": ["mat"]})[0] for q in ("cat", "the dog ran")]
    assert np.allclose(together, alone, atol=1e-4)
    assert abs(together[0] - together[1]) > 1e-3


def test_as_many_beside_as_there_are_texts(reranker: Embedded) -> None:
    with pytest.raises(InvalidInput, match="3 texts and 2 in query") as refused:
        reranker.prepared({"query": ["a", "b"], "texts": TEXTS[:3]}, {})
    assert refused.value.param == "inputs.query"


def test_spans_count_code_points_and_are_those_of_the_tokens(names: Embedded) -> None:
    text = "😀😀 cat sat on the mat"
    folder = names.weights["model"]
    labels = names.model.head.labels
    best = by_hand(folder, "TokenClassification", text).argmax(-1)[1:-1]
    words = text.split()
    (found,) = values(names, {"texts": text})
    marked = [span for span in found for _ in span.text.split()]
    outside = [word for word, at in zip(words, best, strict=True) if labels[at] == "O"]
    assert len(marked) == len(words) - len(outside) > 0
    for span in found:
        assert text[span.start : span.end] == span.text
        assert span.label in ("PER", "LOC")


@pytest.mark.parametrize("kind", ["sequence", "names"])
def test_company_changes_no_answer(kind: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(kind)
    together = values(model, {"texts": TEXTS * 2}, batch_size=3)
    for text, found in zip(TEXTS * 2, together, strict=True):
        alone = values(model, {"texts": text})[0]
        if kind == "names":
            assert [(s.label, s.start, s.end) for s in found] == [
                (s.label, s.start, s.end) for s in alone
            ]
        else:
            assert found == pytest.approx(alone, abs=1e-5)


def test_a_text_over_the_limit_is_refused_by_its_place_unless_the_caller_says_how(
    sequence: Embedded,
) -> None:
    with pytest.raises(InvalidInput, match="Text 1 has 25 tokens more than 32") as refused:
        values(sequence, {"texts": ["cat", LONG]})
    assert refused.value.param == "inputs.texts.1"
    short = " ".join(LONG.split()[:30])
    cut = values(sequence, {"texts": LONG}, overflow="truncate")
    assert cut == pytest.approx(values(sequence, {"texts": short}), abs=1e-5)


def test_in_windows_all_of_a_text_is_read(sequence: Embedded) -> None:
    words = LONG.split()
    size = {"overflow": "window", "window_tokens": 10, "window_overlap": 0}
    found = values(sequence, {"texts": LONG}, **size)[0]
    parts = [" ".join(words[at : at + 8]) for at in range(0, len(words), 8)]
    wanted = values(sequence, {"texts": parts}).mean(0)
    assert found == pytest.approx(wanted, abs=1e-5)


def test_what_one_window_finds_is_in_the_text(names: Embedded) -> None:
    """Spans of all windows, at their places in the whole text, each word once."""
    (found,) = values(names, {"texts": LONG}, overflow="window", window_tokens=12, window_overlap=4)
    assert all(LONG[span.start : span.end] == span.text for span in found)
    ends = [0, *(span.end for span in found)]
    assert all(span.start >= end for span, end in zip(found, ends, strict=False))
    assert found[-1].end > len(LONG) // 2


def test_the_file_is_json_as_a_server_answers(sequence: Embedded) -> None:
    answer = sequence.answer({"texts": ["cat"]})
    assert (answer.drafts[0].mime, answer.drafts[0].suffix) == ("application/json", ".json")
    told = json.loads(answer.bytes)
    assert told["labels"] == ["math", "law", "other"]
    (result,) = told["results"]
    assert result["label"] in told["labels"]
    assert sum(result["probabilities"]) == pytest.approx(1, abs=1e-5)


def test_a_head_of_one_label_is_a_rerankers(home: Path, reranker: Embedded) -> None:
    with pytest.raises(WeightsUnavailable, match="1 labels is not for classification"):
        head_of(home / "ranks", "classification")


# ---- spans without a model -----------------------------------------------------------------------


def word(start: int, label: str, inside: int = 5) -> Word:
    return Word(start, start + 2, label, 0.5, inside)


@pytest.mark.parametrize(
    ("labels", "wanted"),
    [
        (["B-PER", "I-PER", "O", "B-LOC"], [("PER", 0, 5), ("LOC", 9, 11)]),
        (["B-PER", "B-PER"], [("PER", 0, 2), ("PER", 3, 5)]),
        (["PER", "PER", "LOC"], [("PER", 0, 5), ("LOC", 6, 8)]),
        (["I-PER", "O", "I-PER"], [("PER", 0, 2), ("PER", 6, 8)]),
        (["U-PER", "U-PER"], [("PER", 0, 2), ("PER", 3, 5)]),
        (["O", "O"], []),
    ],
)
def test_words_become_stretches(labels: list[str], wanted: list[tuple[str, int, int]]) -> None:
    text = "aa bb cc dd"
    found = spans(text, [[word(3 * at, label) for at, label in enumerate(labels)]])
    assert [(span.label, span.start, span.end) for span in found] == wanted


def test_of_two_windows_the_one_with_more_around_the_word_counts() -> None:
    found = spans("aa bb", [[word(3, "B-PER", inside=0)], [word(3, "O", inside=4)]])
    assert found == []


# ---- as callers see it ---------------------------------------------------------------------------


def test_a_threshold_picks_labels_and_spans() -> None:
    head = Head("scores", ("rude", "spam"))
    assert shown(head, [0.4, 0.6])["selected"] == ["spam"]
    assert shown(head, [0.4, 0.6], 0.3)["selected"] == ["rude", "spam"]
    tokens = Head("token", ("O", "PER"))
    found = [Span("PER", 0, 1, "a", 0.4), Span("PER", 2, 3, "b", 0.9)]
    assert [one["text"] for one in shown(tokens, found, 0.5)["spans"]] == ["b"]
    assert len(shown(tokens, found)["spans"]) == 2


@given(st.lists(st.floats(-50, 50), min_size=1), st.integers(1, 9))
def test_the_best_document_is_first_and_equals_keep_their_order(
    logits: list[float], most: int
) -> None:
    order = ranked(logits, most)
    assert [logits[at] for at in order] == sorted(logits, reverse=True)[:most]
    assert all(a < b for a, b in pairwise(order) if logits[a] == logits[b])

"""A text is computed once, as long as nothing changes that its result depends on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.engine.results import Encoding, Results, Vectors


def read(results: Results, *texts: str, **config: Any) -> tuple[list[str], Vectors]:
    """The texts that were computed, and what the caller gets: each text in capitals."""
    look = results.begin(Encoding(texts, config))
    asked = look.encoding.only(look.missing).texts if look.missing else []
    values = [text.upper() for text in asked]
    computed = Vectors(values, tuple(map(len, asked))) if asked else None
    return list(asked), look.completed(computed)


def test_a_text_that_was_read_is_not_computed_again_and_the_hits_are_said() -> None:
    results = Results(9)
    assert read(results, "a", "bb")[1].hits == 0
    computed, found = read(results, "bb", "c", "a")
    assert computed == ["c"]
    assert (list(found.values), found.tokens, found.hits) == (["BB", "C", "A"], (2, 1, 1), 2)
    computed, found = read(results, "c")
    assert (computed, found.hits) == ([], 1)


COUNTED = st.lists(st.tuples(*[st.integers(0, 9)] * 3), min_size=1, max_size=4)


@given(st.booleans(), COUNTED, st.data())
def test_an_answer_is_the_same_whether_its_texts_were_read_before_or_not(
    counts: bool, rows: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """Of a model that counts no tokens, nobody hears that a text has none."""
    told = [tuple(of) for of in zip(*rows, strict=True)] if counts else []
    computed = Vectors([str(at) for at in range(len(rows))], *told, head={"kind": "sequence"})
    texts = list(computed.values)
    results = Results(9)
    first = results.begin(Encoding(texts)).completed(computed)
    again = results.begin(Encoding(texts)).completed(None)
    assert replace(again, values=list(again.values), hits=0) == first
    some = data.draw(st.lists(st.sampled_from(texts), min_size=1))
    part = results.begin(Encoding(some)).completed(None)
    assert list(part.values) == some
    assert len(part.tokens) == len(part.over) == len(part.windows) == len(some) * counts


def test_with_none_kept_everything_is_computed() -> None:
    results = Results(0)
    read(results, "a")
    assert read(results, "a")[0] == ["a"]
    assert len(results) == 0


@pytest.mark.parametrize(
    ("config", "again"), [({}, []), ({"dimensions": 8}, ["a"])], ids=["the same", "another"]
)
def test_a_result_belongs_to_its_config(config: Mapping[str, Any], again: list[str]) -> None:
    results = Results(9)
    read(results, "a")
    assert read(results, "a", **config)[0] == again


def test_a_result_belongs_to_what_stands_beside_the_text() -> None:
    results = Results(9)
    for query, known in (("q", 0), ("q", 1), ("another", 0)):
        look = results.begin(Encoding(["document"], {}, {"query": [query]}))
        assert len(look.known) == known
        look.completed(Vectors([query]) if look.missing else None)


def test_those_asked_for_longest_ago_go_first() -> None:
    results = Results(2)
    read(results, "a"), read(results, "b"), read(results, "a"), read(results, "c")
    assert read(results, "a")[0] == []
    assert read(results, "b")[0] == ["b"]


def test_what_was_being_computed_when_all_was_forgotten_is_not_kept() -> None:
    """A worker of before answers late; its successor has other goldens, or another quarantine."""
    results = Results(9)
    look = results.begin(Encoding(["a"]))
    results.clear()
    assert list(look.completed(Vectors(["old"])).values) == ["old"], "its own caller is answered"
    assert read(results, "a")[0] == ["a"]


@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=5)), st.integers(0, 4))
def test_every_caller_gets_his_own_values_in_his_order(asked: list[list[str]], most: int) -> None:
    results = Results(most)
    for texts in asked:
        assert list(read(results, *texts)[1].values) == [text.upper() for text in texts]
        assert len(results) <= most

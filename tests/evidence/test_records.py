"""Evidence is a record that many parts write and people read."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from jumar.evidence import BAD, KINDS, Evidence, Subject, Verdict, shape_class

HERE = {"device_class": "npu", "cann": "8.5.0"}


def evidence(**changes):
    given = {
        "subject": Subject(operator="aten::mm", implementation="device"),
        "fingerprint": HERE,
        "verdict": "wrong",
        "found_by": "check",
        "at": 1.0,
    }
    return Evidence(**{**given, **changes})


@pytest.mark.parametrize("kind", KINDS)
def test_a_verdict_and_its_evidence_agree_on_what_is_a_defect(kind):
    assert Verdict(kind).ok == (kind not in BAD)
    assert evidence(verdict=kind).bad == (kind in BAD)


@pytest.mark.parametrize("kind", ["correct", "unsupported", "out_of_memory"])
def test_a_refusal_and_too_little_memory_are_no_defects(kind):
    assert not evidence(verdict=kind).bad


def test_the_id_changes_with_everything_that_is_said():
    ids = {
        evidence(**change).id
        for change in ({}, {"reason": "x"}, {"at": 2.0}, {"layer": "a"}, {"fingerprint": {}})
    }
    assert len(ids) == 5
    assert evidence().id == evidence().id


def test_a_record_reads_back_as_it_was_written():
    one = evidence(numbers={"ulps": 3.5, "worst": "nan", "calls": 2}, shapes=[[2, 3], []])
    assert Evidence.model_validate_json(one.model_dump_json()) == one


@pytest.mark.parametrize("change", [{"verdict": "broken"}, {"unknown": 1}, {"at": None}])
def test_what_is_no_record_is_refused(change):
    with pytest.raises(ValidationError):
        evidence(**change)


@given(st.lists(st.lists(st.integers(0, 5000), max_size=4), max_size=3))
def test_shapes_of_one_class_differ_by_less_than_half(shapes):
    classes = shape_class(shapes)
    if not shapes:
        assert classes == "*"
        return
    for shape, named in zip(shapes, classes.split(","), strict=True):
        bounds = [] if named == "scalar" else [int(size) for size in named.split("x")]
        assert len(bounds) == len(shape)
        for size, bound in zip(shape, bounds, strict=True):
            assert size == bound if size < 2 else size <= bound < 2 * size


def test_zero_and_one_are_classes_of_their_own():
    assert len({shape_class([(n, 8)]) for n in (0, 1, 2)}) == 3


def test_a_subject_says_in_words_what_it_is_about():
    assert str(Subject(operator="aten::mm", implementation="device")) == "aten::mm by device"
    narrow = Subject(operator="aten::mm", implementation="x", shape_class="4x4", dtype="float16")
    assert str(narrow) == "aten::mm by x (float16, 4x4)"
    assert json.loads(narrow.model_dump_json())["dtype"] == "float16"

"""ASCEND_RT_VISIBLE_DEVICES is read as CANN reads it, and every silence of CANN gets a word."""

from __future__ import annotations

import pytest

from jumar.host.visibility import read_visibility

EIGHT = range(8)


def test_without_the_variable_all_chips_are_visible() -> None:
    visible = read_visibility({}, EIGHT)
    assert (visible.ids, visible.problems) == (None, ())
    assert visible.index_of(5) == 5


def test_the_process_counts_the_visible_chips_from_0() -> None:
    visible = read_visibility({"ASCEND_RT_VISIBLE_DEVICES": "2,3,7"}, EIGHT)
    assert (visible.ids, visible.problems) == ((2, 3, 7), ())
    assert [visible.index_of(chip) for chip in (2, 3, 7, 0)] == [0, 1, 2, None]


CASES = [
    ("1, 2,3", (1,), ["blank"]),
    (" 1,2", (), ["blank"]),
    ("0-3", (0,), ["not-a-number"]),
    ("0,1;2", (0, 1), ["not-a-number"]),
    ("npu:0", (), ["not-a-number"]),
    ("0,9", (0,), ["unknown-id"]),
    ("4,2", (4, 2), ["not-ascending"]),
    ("1,1", (1,), ["repeated"]),
    ("", (), ["empty"]),
    ("-1", (), ["not-a-number"]),
]


@pytest.mark.parametrize(("value", "ids", "kinds"), CASES)
def test_a_bad_list_is_read_as_far_as_cann_reads_it_and_the_rest_is_named(
    value: str, ids: tuple[int, ...], kinds: list[str]
) -> None:
    visible = read_visibility({"ASCEND_RT_VISIBLE_DEVICES": value}, EIGHT)
    assert visible.ids == ids
    assert [problem.kind for problem in visible.problems] == kinds


def test_a_blank_in_the_device_list_is_named_with_what_is_lost() -> None:
    (problem,) = read_visibility({"ASCEND_RT_VISIBLE_DEVICES": "1, 2,3"}, EIGHT).problems
    assert problem.says == "a blank ends the list: '2,3' is never read"


def test_ids_are_not_called_unknown_where_nobody_knows_which_exist() -> None:
    visible = read_visibility({"ASCEND_RT_VISIBLE_DEVICES": "11"})
    assert (visible.ids, visible.problems) == ((11,), ())


@pytest.mark.parametrize(
    "name", ["ASCEND_RT_VISIBLE_DEVICE", "ASEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICE"]
)
def test_a_misspelt_name_is_named(name: str) -> None:
    problems = read_visibility({name: "0"}, EIGHT).problems
    assert [(problem.kind, problem.text) for problem in problems] == [("misspelt-name", name)]


@pytest.mark.parametrize(
    "name",
    [
        "ASCEND_RT_VISIBLE_DEVICES",
        "ASCEND_VISIBLE_DEVICES",
        "CUDA_VISIBLE_DEVICES",
        "RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES",
    ],
)
def test_a_correct_name_is_not_called_misspelt(name: str) -> None:
    assert read_visibility({name: "0"}, EIGHT).problems == ()

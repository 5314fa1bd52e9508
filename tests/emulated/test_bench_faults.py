"""The fault bench: every row is accounted for, and what its table says is what came out."""

from __future__ import annotations

import pytest
from benchmarks.faults import table
from benchmarks.faults.base import Measured, Row, chosen, read
from benchmarks.faults.lab import Lab
from benchmarks.faults.programs import PROGRAMS
from benchmarks.faults.scenes import SCENES
from benchmarks.faults.scenes.device import TOOLS

from jumar.isolate import Zygote

NEED_VLLM = {1, 7, 8, 22, 23, 24, 25, 30}
PRELOAD = (
    "torch",
    "torch._decomp",
    "torch._dynamo",
    "torch.utils.flop_counter",
    "jumar.lab.shadow.mode",
    "benchmarks.faults.programs",
)
"""What shadow and recorder would else import while their time limits run."""

ROWS = {row.number: row for row in read()}


@pytest.fixture(scope="module")
def lab():
    with Zygote(PRELOAD) as zygote:
        yield Lab(zygote)


def measured(lab, number, place=0):
    case = ROWS[number].cases[place]
    return SCENES[case["scene"]](case, lab)


# ---- the list ------------------------------------------------------------------------------------


def test_every_one_of_the_55_rows_is_simulated_or_says_why_not():
    assert list(ROWS) == list(range(1, 56))
    assert {n for n, row in ROWS.items() if "vLLM" in row.instead} == NEED_VLLM
    for row in ROWS.values():
        assert bool(row.cases) != bool(row.instead), row.number
        assert row.references and row.symptom, row.number


def test_every_case_names_a_scene_a_program_and_a_tool_that_are_there():
    for row in ROWS.values():
        for case in row.cases:
            assert case["scene"] in SCENES, row.number
            if case["scene"] == "device":
                assert case["program"] in PROGRAMS, row.number
                assert case["tool"] in TOOLS, row.number


def test_an_unknown_row_is_an_error_that_names_it():
    assert [row.number for row in chosen(ROWS.values(), "9, 6")] == [9, 6]
    with pytest.raises(ValueError, match="no row 99"):
        chosen(ROWS.values(), "9,99")


# ---- some rows of each kind ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "seen", "tool"),
    [(10, "wrong", "shadow"), (9, "wrong", "shadow"), (14, "aborts", "recorder")],
    ids=["wrong numbers", "another answer each time", "abort"],
)
def test_a_faulty_operator_is_named_quarantined_and_served_around(lab, number, seen, tool):
    found = measured(lab, number)
    assert (found.seen, found.detected) == (seen, tool)
    assert (found.named, found.quarantined, found.served) == (True, True, True)
    assert not found.alarms


def test_a_device_that_hangs_is_seen_and_no_operator_is_blamed_for_it(lab):
    found = measured(lab, 39)
    assert (found.seen, found.detected, found.named) == ("hangs", "watched child", None)
    assert not found.alarms


def test_slowness_is_not_found_and_the_table_says_so(lab):
    found = measured(lab, 19)
    assert (found.seen, found.detected, found.named, found.served) == (
        "correct", None, False, False,
    )  # fmt: skip


@pytest.mark.parametrize("number", [27, 41, 50, 51])
def test_a_switch_or_binding_that_does_not_what_it_says_is_named(lab, number):
    found = measured(lab, number)
    assert found.detected and found.named
    assert not found.alarms


# ---- the table -----------------------------------------------------------------------------------


def test_a_hole_counts_as_one_and_a_question_without_meaning_does_not():
    row = Row(
        7, ["WN"], "a symptom", ["someone/something#1"], [{"scene": "lint", "finds": {"x": []}}]
    )
    results = [
        (row, 0, Measured("wrong", "shadow", True, True, False, seconds=2.0)),
        (row, 0, Measured("silent", None, False, alarms=("aten::mm",))),
    ]
    other = Row(8, ["IF"], "another", ["someone/something#2"], instead="nobody knows")
    said = "\n".join(table.totals([row, other], results, 9.0))
    assert "1 of 2 rows are simulated, in 2 cases; 2 of these tell nothing" in said
    assert "detected 1 of 2, named 1 of 2, quarantined 1 of 1, served around 0 of 1" in said
    assert "false alarms: 1." in said
    page = table.page([row, other], results, 9.0)
    assert "emulated" in page.splitlines()[2]
    assert "**not simulated**: nobody knows" in page
    assert "https://github.com/someone/something/issues/1" in page


def test_the_page_accounts_for_every_row():
    page = table.page(list(ROWS.values()), [], 0.0)
    for number in ROWS:
        assert f"\n| {number} |" in page
    assert page.count("**not simulated**") == len(NEED_VLLM) + 1  # and one without a known cause


def test_a_row_is_whole_only_where_every_question_was_answered_well():
    assert Measured("wrong", "shadow", True, True, True).whole
    assert Measured("hangs", "watched child", None).whole
    assert not Measured("hangs", None, None).whole
    assert not Measured("wrong", "shadow", True, True, False).whole
    assert not Measured("wrong", "shadow", True, alarms=("aten::mm",)).whole

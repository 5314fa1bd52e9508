"""`jumar report`: which runs, and in which form."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.conftest import Shell
from tests.reporting.samples import failed_report, report, store


@pytest.fixture
def made(run: Shell) -> Path:
    """Three runs; the last one failed."""
    folder = run.folder / "jumar-out"
    folder.mkdir()
    runs = [report("20260101-000000-aa"), report("20260101-000000-ab"), failed_report("20260102-x")]
    for age, one in enumerate(runs):
        os.utime(store(one, folder), ns=(age, age))
    return folder


@pytest.mark.parametrize("line", [("report",), ("report", "latest")])
def test_the_latest_is_meant_where_none_is_named(
    line: tuple[str, ...], run: Shell, made: Path
) -> None:
    assert run(*line).code == 0
    assert "20260102-x" in run.out
    assert "error[insufficient_memory]: The device ran out of memory." in run.out


def test_a_run_is_named_by_the_beginning_of_its_id(run: Shell, made: Path) -> None:
    assert run("report", "20260101-000000-ab", "--json").json["run_id"] == "20260101-000000-ab"


def test_a_beginning_that_two_runs_have_is_refused(run: Shell, made: Path) -> None:
    assert run("report", "20260101").code == 2
    assert run.err.splitlines() == [
        "error[invalid_input]: 2 runs in jumar-out or here begin with '20260101'.",
        "hint: Say more of it: 20260101-000000-aa, 20260101-000000-ab.",
    ]


def test_a_report_is_named_by_its_path(run: Shell, made: Path) -> None:
    path = made / "20260101-000000-aa.report.json"
    assert run("report", str(path), "--json").json["run_id"] == "20260101-000000-aa"


def test_a_folder_means_all_its_runs(run: Shell, made: Path) -> None:
    assert len(run("report", "jumar-out", "--json").json) == 3


def test_before_the_first_run_it_says_so(run: Shell) -> None:
    assert run("report").code == 2
    assert "no run has written to jumar-out" in run.err


def test_a_page_of_all_runs_is_one_file(run: Shell, made: Path) -> None:
    assert run("report", "jumar-out", "--html", "all.html").out == "all.html\n"
    page = (run.folder / "all.html").read_text()
    assert page.count("<article") == 3


def test_a_trace_is_written_for_one_run(run: Shell, made: Path) -> None:
    assert run("report", "latest", "--trace", "run.json").out == "run.json\n"
    assert json.loads((run.folder / "run.json").read_text())["traceEvents"]
    assert run("report", "jumar-out", "--trace", "run.json").code == 2


def test_a_page_that_cannot_be_written_is_told(run: Shell, made: Path) -> None:
    assert run("report", "--html", "nowhere/all.html").code == 4
    assert run.err.startswith("error[output_failed]: Cannot write nowhere/all.html")
    assert sorted(os.listdir(run.folder)) == ["jumar-out"]


def test_the_latest_may_lie_beside_a_file_that_out_named(run: Shell, made: Path) -> None:
    os.utime(store(report("20260103-y"), run.folder), ns=(9, 9))
    assert run("report", "--json").json["run_id"] == "20260103-y"
    assert run("report", "20260103", "--json").json["run_id"] == "20260103-y"
    assert run("report", "--in", "jumar-out", "--json").json["run_id"] == "20260102-x"


def test_a_folder_without_reports_is_named(run: Shell) -> None:
    assert run("report", ".").code == 2
    assert run.err.splitlines() == ["error[invalid_request]: There is no report in '.'."]

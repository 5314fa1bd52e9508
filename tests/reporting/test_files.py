"""Finding and reading reports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.reporting.samples import report, store

from jumar.contracts import GenerateResult
from jumar.contracts.errors import InvalidInput
from jumar.reporting import find, read


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """`old` is older than `new`, whatever their names."""
    for age, name in enumerate(["z-old", "a-new"]):
        os.utime(store(report(name), tmp_path), ns=(age, age))
    return tmp_path


def ids(which: str, folder: Path) -> list[str]:
    return [one.run_id for _, one in find(which, folder)]


def test_latest_is_the_newest_by_time(folder: Path) -> None:
    assert ids("latest", folder) == ["a-new"]


def test_a_folder_gives_all_oldest_first(folder: Path) -> None:
    assert ids(str(folder), Path("elsewhere")) == ["z-old", "a-new"]


def test_an_id_may_be_shortened(folder: Path) -> None:
    assert ids("z", folder) == ["z-old"]


def test_an_id_that_nobody_has_names_the_nearest(folder: Path) -> None:
    with pytest.raises(InvalidInput, match="No runs in") as caught:
        find("z-odl", folder)
    assert caught.value.hint == "Did you mean 'z-old'?"


def test_a_result_is_taken_for_its_report(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(GenerateResult(metadata=report("one")).model_dump_json())
    assert read(path).run_id == "one"


@pytest.mark.parametrize("content", ["", "[]", "3", "{}", '{"run_id": 7}', "\x00"])
def test_a_file_that_is_no_report_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "x.report.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match="is no run report"):
        read(path)


def test_a_report_that_lacks_a_field_is_refused_by_its_name_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.report.json"
    path.write_text("{}")
    with pytest.raises(InvalidInput) as caught:
        read(path)
    assert caught.value.message == f"{path} is no run report: run_id: Field required."
    assert caught.value.cause is None


def test_a_report_of_before_schema_versions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"run_id": "x", "task": "text2image", "model": "m", "backend": "cuda"}')
    assert read(path).schema_version == "0.0.0"

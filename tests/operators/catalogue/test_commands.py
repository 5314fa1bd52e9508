"""`jumar operators list|show|record` as a user meets them."""

from __future__ import annotations

import json

import pytest
from tests.cli.conftest import run
from tests.operators.catalogue import peers

__all__ = ["run"]

NPU = ("--catalogue", "torch_npu-2.13.0")


def test_a_recorded_catalogue_lists_what_is_not_installed_here(run):
    run("operators", "list", "npu_rms*", *NPU)
    assert "npu::npu_rms_norm " in run.out
    assert run.code == 0


def test_filters_leave_what_fits_all_of_them(run):
    run("operators", "list", "--family", "softmax", "--json")
    assert {row["name"] for row in run.json["operators"]} >= {"aten::softmax.int"}
    assert {row["family"] for row in run.json["operators"]} == {"softmax"}
    run(
        "operators",
        "list",
        "add",
        "--provider",
        "torch_npu",
        "--key",
        "PrivateUse1",
        "--json",
        *NPU,
    )
    rows = run.json["operators"]
    assert "aten::add.Tensor" in {row["name"] for row in rows}
    assert all("add" in row["name"] and "PrivateUse1" in row["keys"] for row in rows)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        (["list", "--provider", "torch_nup"], "torch_npu"),
        (["list", "--key", "PrivateUse"], "PrivateUse1"),
        (["list", "--family", "softmaxx"], "softmax"),
        (["show", "npu::npu_rms_nrom"], "npu::npu_rms_norm"),
    ],
)
def test_an_unknown_name_is_an_error_that_names_the_nearest(run, line, hint):
    run("operators", *line, *NPU)
    assert run.code == 2
    assert hint in run.err


def test_a_recorded_file_serves_elsewhere_as_the_installed_library_did(run, tmp_path):
    folder = peers.as_released(tmp_path)
    run("operators", "record", "here.json.gz", "--package", str(folder), "--json")
    assert run.json["versions"]["flag_gems"] == "9.9"
    run("operators", "show", "mm", "--catalogue", "here.json.gz")
    assert "mm_out" in run.out
    run("operators", "show", "aten::copy_", "--catalogue", "here.json.gz")
    assert "flag_gems leaves it out by itself on ascend" in run.out


def test_show_says_what_a_list_of_others_would_have_to_say(run, tmp_path):
    run("operators", "record", "here.json", "--package", str(peers.as_released(tmp_path)))
    run("operators", "show", "aten::pow.Scalar", "--catalogue", "here.json", "--json")
    (told,) = run.json["exclusions"]
    assert told["functions"] == ["pow_scalar"]
    assert {one["function"] for one in told["left"]} == {
        *("pow_tensor_scalar", "pow_tensor_scalar_"),
        *("pow_tensor_tensor", "pow_tensor_tensor_"),
    }


def test_a_name_with_several_meanings_shows_them_all(run):
    run("operators", "show", "rms_norm", "--json")
    kinds = {row["name"]: row["kind"] for row in run.json["operators"]}
    assert kinds == {"aten::rms_norm": "aten", "rms_norm": "layer"}


def test_a_record_of_another_format_is_refused(run):
    (run.folder / "new.json").write_text(json.dumps({"format": 2}))
    run("operators", "list", "--catalogue", "new.json")
    assert run.code == 2
    assert "format 2" in run.err


def test_a_record_of_functions_alone_says_what_it_lacks(run):
    run("operators", "list", "aten::mm", "--catalogue", "flag_gems-5.0.2")
    assert "add --catalogue live" in run.err
    run(
        "operators",
        "list",
        "aten::mm",
        *("--catalogue", "live"),
        *("--catalogue", "flag_gems-5.0.2"),
    )
    assert "flag_gems mm_out" in run.out

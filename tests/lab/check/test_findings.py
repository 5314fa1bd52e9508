"""Findings become verdicts of subjects, evidence, and a folder that a check can go on from."""

from __future__ import annotations

import pytest

from jumar.contracts.errors import InvalidInput, InvalidValue
from jumar.evidence import Store, Verdict, quarantine
from jumar.lab.check.base import Case, Finding, Target
from jumar.lab.check.errors import verdict
from jumar.lab.check.journal import Journal
from jumar.lab.check.page import as_html, rows
from jumar.lab.check.session import checked_dtypes, chosen
from jumar.lab.check.summary import Summary

TARGET = Target("device", "npu:0")
HERE = {"device_class": "npu-emulated", "chip": "one"}


def finding(kind, number=0, operator="aten::mm", shapes=((5, 10), (10, 4))):
    case = Case(operator, "float16", number, "sample of mm", shapes)
    return Finding(case, Verdict(kind, "because", {"ulps": 3.0}), 0.1, "trace", "script")


def test_the_worst_case_speaks_for_its_subject():
    found = [finding("correct"), finding("wrong", 1), finding("hangs", 2), finding("correct", 3)]
    (one,) = Summary(TARGET, HERE, found).judgements()
    assert (one.kind, one.cases, one.bad) == ("hangs", 4, 2)
    assert str(one.subject) == "aten::mm by device (float16, 8x16,16x4)"


def test_shape_classes_have_verdicts_of_their_own():
    found = [finding("wrong"), finding("correct", 1, shapes=((1, 10), (10, 4)))]
    kinds = {one.subject.shape_class: one.kind for one in Summary(TARGET, HERE, found).judgements()}
    assert kinds == {"8x16,16x4": "wrong", "1x16,16x4": "correct"}


def test_the_page_has_a_row_for_each_verdict_on_an_operator_and_dtype():
    kinds = ["correct", "wrong", "wrong", "hangs"]
    found = [finding(kind, n, shapes=((n, 10),)) for n, kind in enumerate(kinds)]
    summary = Summary(TARGET, HERE, found, {"aten::rand": "it draws"}, {"aten::mm int64": "left"})
    made = rows(summary.judgements())
    assert [(one.finding.verdict.kind, one.cases, one.bad) for one in made] == [
        ("hangs", 1, 1),
        ("wrong", 2, 2),
        ("correct", 1, 0),
    ]
    assert made[1].reasons == {"because": ["1x16", "2x16"]}
    page = as_html(summary)
    assert page.count("<details") == 3
    assert all(one in page for one in ("aten::rand", "it draws", "1x16", "2x16", "trace", "left"))
    assert "emulated: no hardware was checked" in page


def test_what_a_check_found_bad_and_now_correct_is_lifted(tmp_path):
    store = Store(tmp_path)
    for kind in ("wrong", "correct"):
        for record in Summary(TARGET, HERE, [finding(kind)]).evidence(store):
            store.add(record)
        denied = quarantine(store, HERE).deny("aten::mm", "device")
        assert (denied is not None) == (kind == "wrong")


def test_correct_ones_that_lift_nothing_are_not_kept(tmp_path):
    assert Summary(TARGET, HERE, [finding("correct")]).evidence(Store(tmp_path)) == []


def test_what_shadow_found_a_check_does_not_lift(tmp_path):
    store = Store(tmp_path)
    (bad,) = Summary(TARGET, HERE, [finding("wrong")]).evidence(store)
    store.add(bad.model_copy(update={"found_by": "shadow"}))
    assert Summary(TARGET, HERE, [finding("correct")]).evidence(store) == []


@pytest.mark.parametrize("kind", ["unsupported", "out_of_memory"])
def test_a_limit_is_no_defect(kind, tmp_path):
    summary = Summary(TARGET, HERE, [finding(kind)])
    assert not summary.bad and summary.evidence(Store(tmp_path)) == []
    assert summary.as_dict()["verdicts"] == {kind: 1}


def test_a_folder_gives_back_what_was_found(tmp_path):
    journal = Journal(tmp_path, TARGET, HERE)
    journal.add([finding("wrong")], ("aten::mm", "float16"))
    assert Journal(tmp_path, TARGET, HERE).read() == ([finding("wrong")], {("aten::mm", "float16")})


def test_another_fingerprint_begins_anew(tmp_path):
    Journal(tmp_path, TARGET, HERE).add([finding("wrong")])
    assert Journal(tmp_path, TARGET, {**HERE, "chip": "two"}).read() == ([], set())


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path):
    journal = Journal(tmp_path, TARGET, HERE)
    journal.add([finding("correct")], ("aten::mm", "float16"))
    whole = journal.path.read_text()
    journal.path.write_text(whole + '{"operator": "aten::m')
    assert len(journal.read()[0]) == 1
    journal.path.write_text("{]\n" + whole)
    with pytest.raises(InvalidInput, match="holds no findings"):
        journal.read()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RuntimeError("NPU out of memory. Tried to allocate 2 GiB"), "out_of_memory"),
        (RuntimeError("MLIRCompilationError: mm: op failed to legalize"), "compile_error"),
        (RuntimeError("E40021: Failed to compile Op [Mm]"), "compile_error"),
        (RuntimeError("Compile op[trans_Mm_2,] failed, oppath[mm.py]"), "compile_error"),
        (NotImplementedError("no kernel"), "unsupported"),
        (RuntimeError("Tensor self not implemented for DT_DOUBLE"), "unsupported"),
        (RuntimeError("aclMm not in libopapi.so"), "unsupported"),
        (RuntimeError("value 70218 for parameter coreDim is invalid"), "raises"),
        (RuntimeError("The aicore execution is abnormal."), "raises"),
        (ValueError("dim"), "raises"),
    ],
)
def test_what_an_exception_says(error, kind):
    assert verdict(error).kind == kind


def test_operators_are_named_by_overload_base_name_or_pattern():
    pytest.importorskip("torch")
    assert chosen(["aten::mm"], TARGET) == ["aten::mm"]
    assert {"aten::add.Tensor", "aten::add.Scalar"} <= set(chosen(["add"], TARGET))
    assert "aten::_log_softmax" in chosen(["*softmax*"], TARGET)
    assert chosen(["rms_norm"], Target("reference", "cpu")) == ["rms_norm"]


def test_a_name_that_means_nothing_is_an_error_with_the_nearest():
    pytest.importorskip("torch")
    with pytest.raises(InvalidValue, match="no operator 'gleu'") as found:
        chosen(["gleu"], TARGET)
    assert "gelu" in found.value.hint or "glu" in found.value.hint
    with pytest.raises(InvalidValue, match="no provider 'flag_gem'"):
        chosen(["mm"], Target("flag_gem", "cpu"))
    with pytest.raises(InvalidValue, match="no dtype 'float33'") as found:
        checked_dtypes(["float33"])
    assert "float32" in found.value.hint


def test_captured_calls_say_what_is_checked():
    calls = [{"operator": "aten::mm"}, {"operator": "aten::gelu"}]
    assert chosen((), TARGET, captured=calls) == ["aten::gelu", "aten::mm"]
    assert chosen((), TARGET, ["aten::mul.Tensor", "prims::add"]) == ["aten::mul.Tensor"]

"""Each kind of fault gets its own verdict, its operator named; workers leave nothing behind."""

from __future__ import annotations

import collections
import contextlib
import functools
import json
import math
import runpy
import time

import psutil
import pytest

from jumar.evidence import BAD, Store, quarantine
from jumar.isolate import Died, Raised, Zygote
from jumar.lab.check import Target, check, session
from jumar.lab.check.running import PRELOAD, Laboratory
from jumar.lab.check.session import _Ledger, tasks

TARGET = Target("device", "npu:0")
LIMIT = 4.0
FAULTS = """faults:
  - {op: gelu, kind: wrong, how: lanes, shape: ["128", "*"]}
  - {op: silu, kind: nondeterministic}
  - {op: mm, kind: raise, text: coreDim, numel: ">=100000"}
  - {op: sigmoid, kind: raise, text: mlir}
  - {op: sin, kind: raise, text: double}
  - {op: cos, kind: oom}
  - {op: bmm, kind: abort, shape: [1, "*", "*"]}
  - {op: _softmax, kind: hang, shape: [1, "*"]}
  - {op: tanh, kind: leak, shape: ["128", "*"]}
  - {op: exp, kind: deferred}
"""
OPERATORS = {
    "aten::gelu": "wrong",
    "aten::silu": "nondeterministic",
    "aten::mm": "raises",
    "aten::sigmoid": "compile_error",
    "aten::sin": "unsupported",
    "aten::cos": "out_of_memory",
    "aten::bmm": "aborts",
    "aten::_softmax": "hangs",
    "aten::tanh": "leaks",
    "aten::exp": "raises",
    "aten::mul.Tensor": "correct",
    "aten::mul.out": "correct",
}
"""`mul.out` is called by no sample of torch: its calls are those of `mul.Tensor`."""
FINGERPRINT = {"device_class": "npu-emulated", "chip": "test"}


@pytest.fixture(scope="module")
def faulty():
    """Where the workers of a machine with all these faults come from."""
    with Zygote(PRELOAD) as zygote:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("JUMAR_EMULATE_FAULTS", FAULTS)
            zygote.start()
        yield zygote


@pytest.fixture(scope="module")
def sound():
    """And those of one without."""
    with Zygote(["torch"]) as zygote:
        yield zygote


@pytest.fixture(scope="module")
def checked(faulty):
    """One check of all these operators."""
    laboratory = Laboratory(TARGET, faulty, limit=LIMIT)
    index = laboratory.index()
    work = tasks(OPERATORS, ["float32"], index) + tasks(["aten::silu"], ["bfloat16"], index)
    ledger = _Ledger(None, len(work), lambda done, total: None)
    began = time.monotonic()
    laboratory.run(work, workers=2, ended=ledger.take)
    workers = [one for one in psutil.Process().children(recursive=True) if _worker(one)]
    _, left = psutil.wait_procs(workers, timeout=10)
    return ledger.summary(TARGET, FINGERPRINT, time.monotonic() - began), left


def _worker(process):
    """Whether it is a worker or its guard; both have the command line of their zygote."""
    try:
        return "jumar" in " ".join(process.cmdline()) and process.ppid() != psutil.Process().pid
    except psutil.Error:
        return False


@pytest.fixture(scope="module")
def summary(checked):
    return checked[0]


def of(summary, operator):
    return [one for one in summary.findings if one.case.operator == operator]


@pytest.mark.parametrize(("operator", "kind"), OPERATORS.items())
def test_each_fault_gets_its_verdict(summary, operator, kind):
    kinds = collections.Counter(one.verdict.kind for one in of(summary, operator))
    assert kinds[kind], kinds
    assert len(of(summary, operator)) > 4 or kind == "hangs"


@pytest.mark.parametrize("operator", ["aten::mul.Tensor", "aten::mul.out"])
def test_an_operator_without_a_fault_is_correct_in_every_case(summary, operator):
    assert {one.verdict.kind for one in of(summary, operator)} == {"correct"}


def test_sixteen_bits_do_not_hide_what_differs_from_run_to_run(summary):
    """Where there are elements enough for two runs to differ in others."""
    met = [one for one in of(summary, "aten::silu") if math.prod(one.case.shapes[0]) > 50]
    assert {(one.case.dtype, one.verdict.kind) for one in met} == {
        ("float32", "nondeterministic"),
        ("bfloat16", "nondeterministic"),
    }


def test_a_fault_of_some_shapes_is_found_in_these_alone(summary):
    for one in of(summary, "aten::gelu"):
        met = one.case.shapes[0][:1] == (128,)
        assert (one.verdict.kind == "correct") == (not met), one
    wrong = next(one for one in of(summary, "aten::gelu") if one.verdict.kind == "wrong")
    assert {"ulps", "index", "wanted", "got"} <= set(wrong.verdict.numbers)


def test_a_wrong_size_is_named_as_it_is_raised(summary):
    raised = [one for one in of(summary, "aten::mm") if one.verdict.kind == "raises"]
    assert raised and all("coreDim" in one.verdict.reason for one in raised)
    assert any(one.case.source == "vocabulary" for one in raised)


def test_an_error_that_comes_late_falls_on_its_own_operator(summary):
    kinds = {one.verdict.kind for one in of(summary, "aten::exp")}
    assert kinds == {"raises"}


def test_a_hang_costs_its_own_limit_and_shows_where_it_stood(summary):
    hung = [one for one in of(summary, "aten::_softmax") if one.verdict.kind == "hangs"]
    assert len(hung) == 2
    assert all(one.seconds == LIMIT and "_run" in one.detail for one in hung)
    assert "after it had hung" in summary.not_run["aten::_softmax float32"]
    assert all(one.seconds < LIMIT for one in summary.findings if one not in hung)


def test_a_crash_costs_one_case(summary):
    kinds = collections.Counter(one.verdict.kind for one in of(summary, "aten::bmm"))
    assert kinds["aborts"] and kinds["correct"] > kinds["aborts"]


def test_workers_that_were_replaced_leave_nothing_behind(checked):
    assert checked[1] == []


def test_evidence_quarantines_what_is_bad_and_only_that(summary, tmp_path):
    store = Store(tmp_path)
    for record in summary.evidence(store):
        store.add(record)
    rules = quarantine(store, FINGERPRINT)
    bad = {name for name, kind in OPERATORS.items() if kind in BAD}
    assert {rule.subject.operator for rule in rules.rules} == bad
    assert all(rule.reproducer for rule in rules.rules)
    assert not rules.deny("aten::mul.Tensor", "device")


def test_the_page_and_the_json_hold_all_of_it(summary):
    from jumar.lab.check.page import as_html

    page = as_html(summary)
    assert "emulated: no hardware was checked" in page
    for operator in OPERATORS:
        assert operator in page
    assert json.loads(json.dumps(summary.as_dict()))["verdicts"] == summary.kinds()


@pytest.mark.parametrize(
    ("operator", "kind", "ends"),
    [
        ("aten::gelu", "wrong", 1),
        ("aten::silu", "nondeterministic", 1),
        ("aten::mm", "raises", 1),
        ("aten::bmm", "aborts", -6),
        ("aten::tanh", "leaks", 1),
    ],
)
def test_a_reproducer_shows_the_fault_and_nothing_where_it_is_not(
    summary, faulty, sound, operator, kind, ends, tmp_path
):
    script = reproducer(summary, operator, kind, tmp_path)
    assert "import jumar" not in script.read_text() and "emulated" in script.read_text()
    assert (_ends(faulty, script), _ends(sound, script)) == (ends, 0)


def test_a_check_goes_on_from_its_folder(sound, tmp_path, monkeypatch):
    """Layer operators by torch_npu; the second check has one dtype left to do."""
    monkeypatch.setattr(session, "Zygote", lambda preload: contextlib.nullcontext(sound))
    target, done = Target("torch_npu", "npu:0"), []
    for dtypes in (["float32"], ["float32", "bfloat16"]):
        found = check(
            target,
            ["silu_and_mul"],
            dtypes=dtypes,
            folder=tmp_path,
            progress=lambda one, _: done.append(one.task.dtype),
        )
        assert set(found.kinds()) == {"correct"}
        assert {one.case.dtype for one in found.findings} == set(dtypes)
    assert done == ["float32", "bfloat16"]


def reproducer(summary, operator, kind, folder):
    found = max(
        (one for one in of(summary, operator) if one.verdict.kind == kind and _full(one)),
        key=lambda one: (one.case.dtype == "bfloat16", sum(map(math.prod, one.case.shapes))),
    )
    script = folder / "show.py"
    script.write_text(found.script)
    return script


def _full(finding):
    return all(size for shape in finding.case.shapes for size in shape)


def _ends(zygote, script):
    """How a script ends in a process that has torch already: its exit code, or minus the signal."""
    with zygote.spawn(functools.partial, runpy.run_path) as child:
        ended = child.call(str(script), deadline=120)
    if isinstance(ended, Raised):
        return 1  # an exception that nobody catches
    assert isinstance(ended, Died), ended
    return ended.exit_code if ended.signal is None else -ended.signal

"""Bisecting on an emulated card: what hangs, aborts, raises or is wrong is named, and only that."""

from __future__ import annotations

import pytest
import torch
from tests.emulated import programs
from tests.emulated.processes import python

from jumar.evidence import Store, Verdict, quarantine
from jumar.isolate import Zygote
from jumar.lab.bisect import bisect
from jumar.lab.blame import evidence, investigate
from jumar.lab.trials import Checked, Limits, Trials, reference

CARD = "npu:0"
HERE = {"device_class": "npu-emulated"}


@pytest.fixture(scope="module")
def zygote():
    with Zygote(["torch", "torch._dynamo"]) as one:
        yield one


@pytest.fixture(scope="module")
def wanted(zygote):
    """What the CPU answers, with inputs as they are and doubled."""
    return {
        doubled: torch.tensor(reference(programs.perceptron, ["cpu", [], doubled], zygote)[0])
        for doubled in (False, True)
    }


@pytest.fixture
def trials(zygote, wanted):
    """Trials of a program on a card that has some faults, judged by the CPU's numbers."""

    def of(*faults, make=programs.perceptron, doubled=()):
        def judge(got):
            off = (torch.tensor(got) - wanted[bool(doubled)]).abs().max().item()
            return Verdict("correct" if off < 1e-5 else "wrong", f"off by {off:.3g}")

        return Trials(make, [CARD, list(faults), *doubled], CARD, judge, Limits(60, 4), zygote)

    return of


def fault(op, kind, **conditions):
    return {"op": op, "kind": kind, **conditions}


def found_in(bench):
    discovered = bench.discovered()
    with Checked(bench, discovered.overrides, discovered.preparing) as check:
        found = bisect(check, discovered.overrides, suspects=discovered.suspects)
    return found, discovered


def names(found):
    return [[one.operator for one in culprit.overrides] for culprit in found.culprits]


@pytest.mark.parametrize("kind", ["hang", "abort", "raise", "deferred"])
def test_what_stops_a_program_is_named_by_the_recorder_and_proven_in_two_trials(kind, trials):
    found, discovered = found_in(trials(fault("gelu", kind)))
    assert names(found) == [["aten::gelu"]] and found.trials == 2
    assert [call.operator for call in discovered.stops] == ["aten::gelu"]
    assert discovered.stops[0].layer == "Sequential.1"
    assert found.culprits[0].verdict.kind == {"hang": "hangs", "abort": "aborts"}.get(
        kind, "raises"
    )


def test_operators_behind_the_one_that_stops_are_known_too(trials):
    calls = trials(fault("gelu", "abort")).discovered().calls
    assert {"aten::addmm", "aten::_softmax", "aten::tanh"} <= set(calls)


def test_a_wrong_one_and_one_that_aborts_are_both_found(trials):
    found, _ = found_in(trials(fault("_softmax", "wrong"), fault("gelu", "abort")))
    assert sorted(names(found)) == [["aten::_softmax"], ["aten::gelu"]]


def test_a_fault_while_preparing_is_found(trials):
    found, discovered = found_in(trials(fault("mul_", "wrong"), doubled=[True]))
    assert "aten::mul_.Tensor" in discovered.preparing
    assert names(found) == [["aten::mul_.Tensor"]]


def test_a_card_without_faults_has_nothing_to_find(trials):
    found, _ = found_in(trials())
    assert found.finding == "passes" and found.trials == 0


def test_a_fault_in_what_carries_to_the_cpu_is_said_to_be_elsewhere(trials):
    found, _ = found_in(trials(fault("_to_copy", "wrong", dtype="float32")))
    assert found.finding == "elsewhere"


def test_memory_that_runs_out_is_no_verdict(trials):
    from jumar.contracts.errors import InsufficientMemory

    with pytest.raises(InsufficientMemory):
        found_in(trials(fault("gelu", "oom")))


def test_evidence_of_a_culprit_puts_it_in_quarantine_and_its_script_shows_the_fault(
    trials, tmp_path
):
    found, discovered = found_in(trials(fault("gelu", "wrong")))
    (record,) = evidence(found, discovered.calls, device=CARD, fingerprint=HERE)
    store = Store(tmp_path)
    store.add(record)
    assert quarantine(store, HERE).deny("aten::gelu", "device") == record
    assert (record.layer, record.shapes) == ("Sequential.1", [[2, 8]])
    ill = python(record.reproducer, JUMAR_EMULATE_FAULTS="[{op: gelu, kind: wrong, how: zero}]")
    well = python(record.reproducer)
    assert worst(ill.stdout) > 0.1 and worst(well.stdout) < 1e-5, ill.stderr + well.stderr


def worst(told):
    """The number of `[2, 8]: off by at most 0.5`."""
    return float(told.split()[-1])


def test_a_program_that_stops_is_investigated_and_every_stop_is_named(trials):
    bench = trials(fault("gelu", "hang"), fault("tanh", "abort"))
    records = investigate(bench, fingerprint=HERE)
    assert [(one.subject.operator, one.verdict) for one in records] == [
        ("aten::gelu", "hangs"),
        ("aten::tanh", "aborts"),
    ]


def test_an_investigation_of_what_no_operator_did_names_nobody(trials):
    assert investigate(trials(make=programs.raising), fingerprint=HERE) == []


def test_two_that_fail_only_together_are_found_as_one_set_and_each_names_the_other(trials):
    found, discovered = found_in(trials(make=programs.accomplices))
    assert [sorted(one) for one in names(found)] == [["aten::_softmax", "aten::gelu"]]
    records = evidence(found, discovered.calls, device=CARD, fingerprint=HERE)
    others = {one.subject.operator: one.numbers["together_with"] for one in records}
    assert others["aten::gelu"] == "aten::_softmax by device"
    assert "Only together with" in records[0].reason


def test_a_model_that_hangs_is_told_from_the_command_line(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from jumar.cli.app import jumar

    monkeypatch.setenv("JUMAR_EMULATE_FAULTS", '[{"op": "gelu", "kind": "hang"}]')
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path))
    line = "bisect --model all-minilm-l6-v2 --device npu:0 --time-limit 4"
    done = CliRunner().invoke(jumar, line.split())
    assert done.exit_code == 1, done.output
    assert "guilty: aten::gelu by device: hangs." in done.stdout
    (record,) = Store(tmp_path)
    assert (record.subject.operator, record.verdict) == ("aten::gelu", "hangs")
    assert record.found_by == "bisect" and record.layer.endswith("intermediate_act_fn")

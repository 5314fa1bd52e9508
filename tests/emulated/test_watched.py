"""Each kind of fault in a watched run: what the report says, and that nothing is left behind."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest
import torch
from tests.isolate.conftest import is_alive
from tests.support.tiny_checkpoints import sentence_bert

import jumar
from jumar import requests
from jumar.cli.isolating import investigator
from jumar.contracts.errors import RunFailed
from jumar.emulator import fault
from jumar.evidence import Evidence, Store, Subject
from jumar.isolate import Zygote
from jumar.operators.overrides import active

# The children of one zygote have the same faults, and so each is met by another number of texts.
FAULTS = {
    2: {"kind": "raise", "text": "aicore"},
    3: {"kind": "deferred", "text": "aicore"},
    4: {"kind": "oom"},
    5: {"kind": "abort"},
    6: {"kind": "hang"},
    7: {"kind": "delay", "seconds": 0.1},
    8: {"kind": "wrong", "how": "nan"},
    9: {"kind": "wrong", "how": "lanes"},
    10: {"op": "layer_norm", "kind": "nondeterministic"},
    11: {"kind": "leak", "bytes": 8 << 20, "calls": 1},
    12: {"kind": "raise", "text": "double"},
    13: {"kind": "raise", "text": "complex"},
}
PRELOAD = ["torch", "transformers.models.bert.modeling_bert"]  # nearly all of a load's time
SOUND, WRONG = None, "an answer"
SAID = {
    2: ("run_failed", "aicore execution is abnormal", "goes on"),
    3: ("run_failed", "aicore execution is abnormal", "goes on"),
    4: ("insufficient_memory", "NPU out of memory", "goes on"),
    5: ("run_failed", "Ended: It was killed by SIGABRT (Aborted).", "is gone"),
    6: ("run_failed", "Ended: It made no progress for 8 s and was ended.", "is gone"),
    7: (SOUND, "", "goes on"),
    8: ("invalid_model_output", "NaN", "goes on"),
    9: (WRONG, "", "goes on"),
    10: (WRONG, "", "goes on"),
    11: (SOUND, "", "goes on"),
    12: ("run_failed", "DT_DOUBLE", "goes on"),
    13: ("run_failed", "DT_COMPLEX64", "goes on"),
}


@pytest.fixture(scope="module")
def loading(tmp_path_factory):
    folder = sentence_bert(tmp_path_factory.mktemp("encoder"))
    return {"compile": "off", "model_path": str(folder)}


@pytest.fixture(scope="module")
def zygote():
    rules = [{"op": "gelu", "shape": [n, "*", "*"]} | rule for n, rule in FAULTS.items()]
    with pytest.MonkeyPatch.context() as patch, Zygote(PRELOAD) as zygote:
        patch.setenv("JUMAR_EMULATE_FAULTS", str(rules))
        yield zygote.start()


@pytest.fixture
def watch(zygote, loading):
    """Watch the encoder on a card."""
    opened = []

    def watch(**given):
        given = {"backend": "npu:1", "zygote": zygote, "heartbeat": 8, **loading, **given}
        opened.append(jumar.watch("all-minilm-l6-v2", **given))
        return opened[-1]

    yield watch
    for model in opened:
        model.close()


@pytest.fixture
def model(watch):
    return watch()


@pytest.fixture
def evidence(tmp_path, monkeypatch):
    """A store of its own, where what is found out in a test stays."""
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path / "evidence"))
    return Store()


def guilty(operator, fingerprint, verdict="aborts"):
    subject = Subject(operator=operator, implementation="device")
    return Evidence(
        subject=subject,
        fingerprint=fingerprint,
        verdict=verdict,
        found_by="recorder",
        at=time.time(),
    )


def texts(count):
    return ["hello"] * count


def on_the_cpu(count, loading):
    return jumar.embed("all-minilm-l6-v2", texts(count), backend="cpu", **loading)


def about_operators(warnings):
    """All but that the tiny tokenizer does not know the word."""
    return [warning for warning in warnings if not warning.startswith("Words or signs")]


def vectors(result):
    assert result.ok, result.metadata.error_detail
    return np.load(result.outputs[0].path)


def test_each_kind_of_fault_has_its_report_and_leaves_nothing_on_the_card(model, loading, tmp_path):
    """One model meets all of them, one after the other; between them it answers as before."""
    first = model.generate(texts=texts(1), out=tmp_path).metadata
    for count, (code, words, then) in SAID.items():
        result = model.generate(texts=texts(count), out=tmp_path)
        report, detail = result.metadata, result.metadata.error_detail
        kind = FAULTS[count]
        assert (detail.code if detail else None) == (None if code is WRONG else code), kind
        assert words in (f"{detail.message} {detail.cause}" if detail else ""), kind
        if detail is None:
            far = np.abs(vectors(result) - on_the_cpu(count, loading)).max()
            assert (far > 1e-3) == (code is WRONG), kind
        assert is_alive(int(report.worker_id)) == (then == "goes on"), kind
        after = model.generate(texts=texts(1), out=tmp_path).metadata
        assert after.error_detail is None, kind
        leaks = kind["kind"] == "leak"
        assert (after.memory["peak_mb"] > first.memory["peak_mb"] + 8) == leaks, kind
        if leaks:  # it is the worker's, and goes with it
            model._end()
    assert torch.npu.memory_allocated(1) == 0


def test_the_report_of_a_hang_says_where_the_model_stood(model, tmp_path):
    report = model.generate(texts=texts(6), out=tmp_path).metadata
    assert "transformers/activations.py" in report.error_detail.cause
    (ended,) = [event for event in report.stream_events if event.event == "worker_ended"]
    assert "modeling_bert.py" in ended.data["python"]
    assert report.device == "npu:1"
    assert report.fingerprint["device_class"] == "npu-emulated"


class TestHealing:
    def test_without_anybody_who_looks_into_it_a_failure_stays_one(self, watch, tmp_path, evidence):
        result = watch().generate(texts=texts(5), out=tmp_path)
        assert result.metadata.error_detail.code == "run_failed"
        assert list(evidence) == []

    def test_what_is_found_guilty_is_quarantined_and_the_request_run_again(
        self, watch, loading, tmp_path, evidence
    ):
        asked = []

        def investigate(failed, request):
            asked.append((failed, request))
            return [guilty("aten::gelu", failed.fingerprint)]

        model = watch(investigate=investigate)
        result = model.generate(texts=texts(5), out=tmp_path)
        ((failed, request),) = asked
        (record,) = evidence
        np.testing.assert_allclose(vectors(result), on_the_cpu(5, loading), atol=1e-4)
        report = result.metadata
        assert report.operators.bound == {"aten::gelu": "reference"}
        assert report.operators.quarantined == ["aten::gelu by device"]
        found, again, bound = about_operators(report.warnings)
        assert found.startswith(
            f"Found guilty: aten::gelu by device aborts (evidence {record.id})."
        )
        assert again.startswith("The request was run again after: The worker ended during encode.")
        assert "SIGABRT" in again
        assert bound == (
            "aten::gelu is computed by the reference:"
            f" device in quarantine: aborts (evidence {record.id})."
        )
        assert (request.inputs["texts"], request.config["compile"]) == (texts(5), "off")
        assert failed.placement.device.label == "npu:1"
        assert report.timings["investigate_ms"] >= 0
        following = model.generate(texts=texts(5), out=tmp_path).metadata
        assert about_operators(following.warnings) == [bound]
        assert len(asked) == 1

    def test_vectors_that_are_asked_for_directly_are_healed_too(self, watch, loading, evidence):
        model = watch(investigate=lambda failed, _: [guilty("aten::gelu", failed.fingerprint)])
        heard = []
        found = model.encode(texts(2), listener=heard.append)
        np.testing.assert_allclose(found, on_the_cpu(2, loading), atol=1e-4)
        warnings = [event.data["text"] for event in heard if event.event == "warning"]
        assert len(warnings) == len(set(warnings))
        assert len(about_operators(warnings)) == 3

    def test_an_investigation_that_finds_nothing_or_fails_leaves_the_failure_as_it_is(
        self, watch, tmp_path, evidence
    ):
        def fails(failed, request):
            raise RunFailed("no room")

        for investigate, told in ((lambda *_: [], "no operator"), (fails, "RunFailed: no room")):
            report = watch(investigate=investigate).generate(texts=texts(2), out=tmp_path).metadata
            assert "aicore" in report.error_detail.cause
            assert any(told in warning for warning in report.warnings)

    def test_an_investigation_that_is_cancelled_finds_nobody_guilty(
        self, watch, tmp_path, evidence
    ):
        stop = threading.Event()

        def investigate(failed, request):
            failed.cancel.set()
            return [guilty("aten::gelu", failed.fingerprint)]

        model = watch(investigate=investigate)
        report = model.generate(texts=texts(2), out=tmp_path, cancel=stop).metadata
        assert report.error_detail.code == "cancelled"
        assert list(evidence) == []

    def test_lack_of_memory_refused_formats_and_wrong_numbers_are_not_looked_into(
        self, watch, tmp_path, evidence
    ):
        asked = []
        model = watch(investigate=lambda *given: asked.append(given) or [])
        for count in (4, 8, 12, 13):
            assert not model.generate(texts=texts(count), out=tmp_path).ok
        assert asked == []

    def test_the_lab_finds_the_operator_behind_an_abort(
        self, watch, loading, tmp_path, evidence, monkeypatch
    ):
        monkeypatch.setenv("JUMAR_EMULATE_FAULTS", "[{op: gelu, kind: abort}]")
        with Zygote(PRELOAD) as zygote:
            model = watch(zygote=zygote, heartbeat=60, investigate=investigator("on"))
            result = model.generate(texts=texts(1), out=tmp_path)
        np.testing.assert_allclose(vectors(result), on_the_cpu(1, loading), atol=1e-4)
        assert result.metadata.operators.quarantined == ["aten::gelu by device"]
        (record,) = evidence
        assert (record.found_by, record.verdict) == ("recorder", "aborts")


class TestQuarantine:
    @pytest.fixture
    def embed(self, loading, tmp_path):
        def embed(backend="npu:1"):
            asked = requests.embeddings("all-minilm-l6-v2", texts(1), backend=backend, **loading)
            return jumar.generate(asked, out=tmp_path, overwrite=True)

        return embed

    def test_a_wrong_operator_is_gone_around_as_long_as_it_stands_in_quarantine(
        self, embed, evidence, loading
    ):
        right = on_the_cpu(1, loading)
        with fault("gelu", "wrong", how="lanes"):
            control = embed()
            evidence.add(guilty("aten::gelu", control.metadata.fingerprint, "wrong"))
            around = embed()
        assert np.abs(vectors(control) - right).max() > 1e-3
        assert control.metadata.operators.bound == {}
        np.testing.assert_allclose(vectors(around), right, atol=1e-4)
        assert around.metadata.operators.bound == {"aten::gelu": "reference"}
        assert about_operators(around.metadata.warnings)
        assert about_operators(control.metadata.warnings) == []
        assert active("npu:1") == frozenset()
        assert embed("cpu").metadata.operators.bound == {}

    def test_an_operator_that_nothing_else_computes_stops_the_run(self, embed, evidence):
        evidence.add(guilty("aten::copy_", embed().metadata.fingerprint))
        detail = embed().metadata.error_detail
        assert detail.code == "operator_unavailable"
        assert detail.message.startswith(
            "aten::copy_ cannot be computed by the reference on npu:1: device in quarantine: aborts"
        )

    def test_a_users_policy_takes_an_operator_from_the_device(
        self, embed, evidence, tmp_path, monkeypatch
    ):
        policy = tmp_path / "operators.yaml"
        policy.write_text("deny: [{operators: [gelu], providers: device, because: it is slow}]")
        monkeypatch.setenv("JUMAR_OPERATOR_POLICY", str(policy))
        report = embed().metadata
        assert report.operators.bound == {"aten::gelu": "reference"}
        assert report.operators.quarantined == []
        assert "denied: it is slow" in about_operators(report.warnings)[0]

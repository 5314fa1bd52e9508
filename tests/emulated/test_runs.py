"""Whole runs on an emulated card: what was tried, what the report says, and what is left behind."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest
import torch
from tests.emulated.processes import python
from tests.support.tiny_checkpoints import sentence_bert

import jumar
from jumar import requests
from jumar.devices import place
from jumar.emulator import fault
from jumar.isolate import Died, run

TEXTS = ["hello", "a longer text"]
CARD = 1


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return sentence_bert(tmp_path_factory.mktemp("encoder"))


@pytest.fixture
def embed(encoder, tmp_path):
    """Run the encoder; by default on a card and without graphs, which take seconds to make."""

    def ask(backend=f"npu:{CARD}", **config):
        settings = {"compile": "off", "model_path": str(encoder), **config}
        request = requests.embeddings("all-minilm-l6-v2", TEXTS, backend=backend, **settings)
        return jumar.generate(request, out=tmp_path, overwrite=True)

    return ask


@pytest.fixture(autouse=True)
def nothing_left():
    """Whatever becomes of a run, the card holds afterwards what it held before."""
    gc.collect()
    before = torch.npu.memory_allocated(CARD)
    yield
    assert torch.npu.memory_allocated(CARD) == before


def vectors(result):
    assert result.ok, result.metadata.error_detail
    return np.load(result.outputs[0].path)


def attempts(report):
    (entry,) = report.backend_timeline
    return [(a.level, a.ok, a.reason) for a in entry.attempts if a.level != "kernel_override"]


@pytest.fixture
def fresh_compiler():
    import torch._dynamo

    torch._dynamo.reset()


def test_a_run_says_that_its_card_is_emulated_and_what_it_depends_on(embed):
    result = embed()
    report = result.metadata
    assert report.where == "npu:1 (emulated)"
    assert report.fingerprint["device_class"] == "npu-emulated"
    assert report.fingerprint["chip"] == "Ascend910B1 (emulated)"
    assert {"driver", "cann", "torch", "torch_npu"} <= set(report.fingerprint)
    assert report.memory["peak_mb"] > 0
    assert report.config_resolved["dtype"] == "fp32"
    np.testing.assert_allclose(vectors(result), vectors(embed("cpu")), atol=1e-5)


def test_an_encoder_is_not_compiled_unasked(embed):
    """Each shape of a batch would be compiled and compared by itself, for minutes."""
    (entry,) = embed(compile="auto").metadata.backend_timeline
    assert [(one.level, one.selected) for one in entry.attempts if one.selected] == [
        ("eager", True)
    ]
    assert "not tried: on this device only with compile: on" in str(entry.attempts)


@pytest.mark.usefixtures("fresh_compiler")
def test_a_graph_that_can_be_made_is_taken_where_it_is_asked_for(embed, recwarn, capfd):
    result = embed(compile="on")
    assert attempts(result.metadata) == [("compile", True, "torchair")]
    np.testing.assert_allclose(vectors(result), vectors(embed("cpu")), atol=1e-5)
    assert not recwarn.list, "what a compiler says to its authors is not for users"
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("fresh_compiler")
def test_a_graph_that_cannot_be_made_names_the_operator_and_eager_answers(embed):
    with fault("gelu", "compile") as broken:
        result = embed(compile="on")
    assert broken.hits
    compiled, captured, eager = attempts(result.metadata)
    assert compiled == ("compile", False, "torchair: RuntimeError: Unsupported torch op gelu by ge")
    # This encoder reads a number of its mask, which no capture allows.
    assert captured[:2] == ("compile", False)
    assert "is not permitted while a stream is capturing" in captured[2]
    assert eager == ("eager", True, None)
    np.testing.assert_allclose(vectors(result), vectors(embed("cpu")), atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        ("raise", "aicore", "aicore"),
        ("deferred", "aicore", "aicore"),
        ("raise", "double", "DT_DOUBLE"),
    ],
)
def test_an_operator_that_fails_is_the_cause_in_the_report_and_the_doctor_knows_it(
    embed, kind, text, words
):
    with fault("addmm", kind, text=text, calls="3"):
        result = embed()
    detail = result.metadata.error_detail
    assert (detail.code, result.outputs) == ("run_failed", [])
    assert words in detail.cause
    assert "(log-" in detail.hint
    assert embed().ok


def test_a_card_without_room_is_said_in_one_word(embed):
    with fault("addmm", "oom", calls="2"):
        detail = embed().metadata.error_detail
    assert detail.code == "insufficient_memory"
    assert "NPU out of memory" in detail.cause


def test_nan_never_leaves_as_a_vector(embed):
    with fault("gelu", "wrong", how="nan"):
        assert embed().metadata.error_detail.code == "invalid_model_output"


@pytest.mark.parametrize("spoil", [{"kind": "wrong", "how": "lanes"}, {"kind": "nondeterministic"}])
def test_a_wrong_number_looks_like_an_answer(embed, spoil):
    """Nothing in a single run can tell: this is what golden answers and shadows are for."""
    with fault("layer_norm", **spoil) as broken:
        spoilt = vectors(embed())
    assert broken.hits
    assert np.abs(spoilt - vectors(embed("cpu"))).max() > 1e-3


def test_an_operator_that_takes_long_runs_into_the_callers_deadline(embed):
    with fault("gelu", "delay", seconds=0.6):
        report = embed(timeout=0.5).metadata
    assert report.error_detail.code == "deadline_exceeded"
    assert report.timings["encode_ms"] > 500


def test_memory_that_an_operator_leaks_shows_on_the_card(embed):
    card = 0
    before = torch.npu.memory_allocated(card)
    with fault("gelu", "leak", bytes=1 << 20, calls="1"):
        assert embed(f"npu:{card}").ok
    assert torch.npu.memory_allocated(card) - before == 1 << 20


def test_a_model_that_stays_loaded_answers_again_after_a_failure(encoder, tmp_path):
    ask = {"compile": "off", "model_path": str(encoder)}
    with jumar.load("all-minilm-l6-v2", backend=f"npu:{CARD}", **ask) as model:
        held = torch.npu.memory_allocated(CARD)
        with fault("addmm", "raise", text="aicore"):
            assert not model.generate(texts=TEXTS, out=tmp_path / "first").ok
        assert torch.npu.memory_allocated(CARD) == held
        assert model.generate(texts=TEXTS, out=tmp_path / "second").ok


def in_a_child(encoder, folder, faults, **watch):
    command = [sys.executable, "-m", "jumar", "generate", "--task", "embeddings"]
    command += ["--model", "all-minilm-l6-v2", "--texts", "hello", "--backend", "ascend"]
    command += [
        "--isolate",
        "off",
        "--compile",
        "off",
        "--model-path",
        str(encoder),
        "--out",
        str(folder),
    ]
    return run(command, env={"JUMAR_EMULATE_FAULTS": faults}, **watch)


def test_an_operator_that_aborts_ends_a_child_by_its_signal(encoder, tmp_path):
    ended = in_a_child(encoder, tmp_path, "[{op: gelu, kind: abort}]", deadline=120)
    assert isinstance(ended, Died)
    assert ended.signal == 6


def test_npu_free_takes_the_emptiest_card_and_says_which():
    free = [torch.npu.mem_get_info(index)[0] for index in (0, 1)]  # other tests may have leaked
    emptier = free.index(max(free))
    held = torch.zeros((abs(free[0] - free[1]) >> 2) + (1 << 20), device=f"npu:{emptier}")
    placement = place("npu:free")
    assert placement.torch_device == f"npu:{1 - emptier}"
    assert placement.reason.startswith(f"npu:{1 - emptier} has the most free memory")
    del held


@pytest.mark.parametrize(
    ("key", "name"), [("jit_compile", "compile"), ("internal_format", "format")]
)
def test_switches_of_torch_npu_are_off_unless_asked_for(embed, key, name):
    def switches():
        return {
            "jit_compile": not torch.npu.is_jit_compile_false(),
            "internal_format": torch.npu.config.allow_internal_format,
        }

    embed()
    assert switches() == {"jit_compile": False, "internal_format": False}
    embed(**{key: True})
    assert switches()[key] is True
    assert f"{key} has no effect on cpu." in embed("cpu", **{key: True}).metadata.warnings


CHIP = "npu:0 (Ascend310P3 (emulated))"
REFUSED = (
    "from jumar import validate, requests\n"
    "from jumar.contracts.errors import InvalidValue\n"
    "from jumar.devices import place\n"
    "found = place('npu')\n"
    "print(found.device.shown, found.dtypes)\n"
    "try:\n"
    "    validate(requests.text2image('sdxl-digits', 'a', backend='npu', dtype='bf16'))\n"
    "except InvalidValue as error:\n"
    "    print(error.message, error.hint)\n"
    "try:\n"
    "    place('npu:1')\n"
    "except Exception as error:\n"
    "    print(error.message)\n"
)


def test_a_process_that_sees_one_card_of_a_310p():
    """An index counts among the visible; bf16 is refused by name, never changed."""
    told = python(REFUSED, JUMAR_EMULATE_NPU="2,chip=310P", ASCEND_RT_VISIBLE_DEVICES="1")
    assert told.stdout.splitlines() == [
        "npu:0 (host card 1) ('fp16', 'fp32')",
        f"{CHIP} does not compute in bf16 (dtype is from: caller). It computes in fp16, fp32.",
        "There is no npu:1: 1 visible, indices 0 to 0.",
    ], told.stderr

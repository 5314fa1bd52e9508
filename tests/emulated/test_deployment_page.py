"""The commands of OmniRT's deployment page for Ascend, on emulated NPUs and without any."""

from __future__ import annotations

import json

import pytest
from tests.emulated.processes import python
from tests.support.tiny_checkpoints import sentence_bert

CHECK = (
    "import torch, torch_npu; print(torch_npu.npu.is_available(), torch.npu.device_count());"
    "torch_npu.empty_cache()"
)


def omnirt(*arguments, **environ):
    return python("from jumar.cli import main; main()", *arguments, **environ)


def test_the_smoke_test_of_the_installation():
    assert python(CHECK, JUMAR_EMULATE_NPU="2,profile=2.1").stdout.split() == ["True", "2"]
    without = python(CHECK, JUMAR_EMULATE_NPU=None)
    assert "ModuleNotFoundError: No module named 'torch_npu'" in without.stderr


GENERATE = ("generate", "--task", "text2image", "--model", "sdxl-base-1.0", "--prompt", "a cat")


def test_without_an_npu_the_backend_is_refused_before_anything_is_fetched(tmp_path):
    told = omnirt(*GENERATE, "--backend", "ascend", "--out", str(tmp_path), JUMAR_EMULATE_NPU=None)
    assert told.returncode == 3
    assert "ascend cannot be used here: torch_npu is not installed." in told.stderr
    assert "Here there is: cpu." in told.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("profile", "rung"),
    [
        ("2,profile=2.1", ("compile", True, "torch_npu.npu.graph_mode")),
        (
            "2,profile=2.1,graph=fail",
            ("compile", False, "torch_npu.npu.graph_mode: RuntimeError: graph mode init failed"),
        ),
    ],
)
def test_graph_mode_first_and_eager_where_it_fails(tmp_path, profile, rung):
    """One card is visible, as on the page; the report names the operator. Graphs are asked for: an
    encoder, whose lengths differ, has none of itself.
    """
    encoder = sentence_bert(tmp_path)
    told = omnirt(
        *("generate", "--task", "embeddings", "--model", "all-minilm-l6-v2", "--texts", "hello"),
        *("--compile", "on"),
        *("--backend", "ascend", "--model-path", str(encoder), "--out", str(tmp_path / "out")),
        ASCEND_RT_VISIBLE_DEVICES="1",
        JUMAR_EMULATE_NPU=profile,
    )
    assert told.returncode == 0, told.stderr
    (file,) = (tmp_path / "out").glob("*.report.json")
    report = json.loads(file.read_text())
    level, ok, reason = rung
    tried = [one for one in report["backend_timeline"][0]["attempts"] if one["level"] == level]
    assert tried[0]["ok"] is ok
    assert tried[0]["reason"].startswith(reason)
    assert report["backend_timeline"][0]["attempts"][-1]["selected"] is True
    assert report["device_placement"] == {"model": "npu:0 (host card 1)"}
    assert report["fingerprint"]["device_class"] == "npu-emulated"

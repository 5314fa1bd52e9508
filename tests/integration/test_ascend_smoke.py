"""Everything that runs on the CPU runs on an Ascend NPU, and answers the same.

On an Ascend host:          pytest tests/integration/test_ascend_smoke.py -q
must not skip there:        JUMAR_REQUIRE_ASCEND=1 pytest …
on emulated NPUs:           JUMAR_EMULATE_NPU=2 pytest …     (shows nothing about real ones)

Each missing prerequisite is one line of reason. Large models run where somebody says where their
weights lie: JUMAR_SVD_XT_MODEL_SOURCE, or OmniRT's own names (OMNIRT_SVD_XT_MODEL_SOURCE). Avatars
run where JUMAR_FLASHTALK_REPO_PATH, …_IMAGE_PATH and …_AUDIO_PATH (or OMNIRT_…) are set.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import jumar
from jumar import requests
from jumar.contracts.errors import InvalidValue
from jumar.devices import accelerators

pytestmark = pytest.mark.models

REQUIRED = os.environ.get("JUMAR_REQUIRE_ASCEND", "") not in ("", "0")
EMULATED = os.environ.get("JUMAR_EMULATE_NPU", "").strip() not in ("", "0")
EXTRAS = ("torch", "transformers", "diffusers", "onnxruntime", "soundfile", "PIL")
TEXTS = ["A cat sat on the mat.", "A feline rested on a rug.", "Interest rates were raised."]
SOURCES = {
    "sdxl-base-1.0": "SDXL",
    "svd-xt": "SVD_XT",
    "wan2.2-t2v-14b": "WAN2_2_T2V_14B",
}
"""Models of the deployment page, and the <X> of the variables that name their weights."""
AVATARS = {
    "soulx-flashtalk-14b": "FLASHTALK",
    "soulx-flashhead-1.3b": "FLASHHEAD",
    "soulx-liveact-14b": "LIVEACT",
}

# Graphs are tried unasked on a real NPU. On an emulated one they take minutes and show nothing that
# tests/emulated does not.
COMPILE: dict[str, Any] = {"compile": "off"} if EMULATED else {}


def lack(reason: str) -> None:
    """Skip; on a host that is declared to be an Ascend host, fail."""
    if REQUIRED:
        pytest.fail(f"JUMAR_REQUIRE_ASCEND is set: {reason}")
    pytest.skip(reason)


@pytest.fixture(scope="module", autouse=True)
def ascend() -> str:
    """What the device is called; skips where there is none, or nothing to run on it."""
    missing = [name for name in EXTRAS if find_spec(name) is None]
    if missing:
        lack(f"runtime extras: {', '.join(missing)} not installed (pip install 'jumar[runtime]')")
    if reason := accelerators()["npu"].unavailable():
        lack(f"device: {reason}")
    return accelerators()["npu"].devices()[0].name


def run(request: jumar.GenerateRequest, folder: Path) -> jumar.GenerateResult:
    """The result; the report says what it ran on, and the failure where there is one."""
    result = jumar.generate(request, out=folder)
    assert result.ok, result.metadata.error_detail
    return result


def where(result: jumar.GenerateResult) -> str:
    """The device as people are shown it, after a look at what the report says of it."""
    report = result.metadata
    assert report.backend == "ascend"
    assert report.device_placement["model"].startswith("npu:0")
    assert report.memory["peak_mb"] > 0
    assert report.backend_timeline
    assert all(any(a.selected for a in entry.attempts) for entry in report.backend_timeline)
    assert {"chip", "torch", "torch_npu", "driver", "cann"} <= set(report.fingerprint)
    return report.where


def test_vectors_are_those_of_the_cpu(tmp_path: Path) -> None:
    """fp32 on both: no number of a unit vector differs by more than 1e-3."""
    import numpy as np

    made = {
        backend: run(
            requests.embeddings("all-minilm-l6-v2", TEXTS, backend=backend, **options),
            tmp_path / backend,
        )
        for backend, options in (("cpu", {}), ("ascend", COMPILE))
    }
    cpu, npu = (np.load(made[backend].outputs[0].path) for backend in ("cpu", "ascend"))
    assert np.abs(npu - cpu).max() < 1e-3
    assert npu[0] @ npu[1] > npu[0] @ npu[2]
    assert where(made["ascend"]) == ("npu:0 (emulated)" if EMULATED else "npu:0")
    assert made["ascend"].metadata.config_resolved["dtype"] == "fp32"


def test_a_transcript_has_the_words_of_the_cpu(tmp_path: Path) -> None:
    """In the device's own default dtype: the same words."""
    spoken = run(requests.text2audio("hibari", "The cat sat on the mat.", seed=1), tmp_path)
    made = {
        backend: run(
            requests.audio2text(
                "whisper-tiny.en", spoken.outputs[0].path, backend=backend, **options
            ),
            tmp_path / backend,
        )
        for backend, options in (("cpu", {}), ("ascend", COMPILE))
    }
    words = {backend: str(result.outputs[0].text).split() for backend, result in made.items()}
    assert words["ascend"] == words["cpu"]
    where(made["ascend"])
    assert made["ascend"].metadata.config_resolved["dtype"] in ("bf16", "fp16")


def test_a_picture_is_that_of_the_cpu(tmp_path: Path) -> None:
    """fp32 and the same start: on average less than 1 of 255 levels apart."""
    import numpy as np
    from PIL import Image

    ask: dict[str, Any] = {"seed": 7, "dtype": "fp32", "num_inference_steps": 6}
    made = {
        backend: run(
            requests.text2image("sdxl-digits", "a red seven", backend=backend, **ask, **options),
            tmp_path / backend,
        )
        for backend, options in (("cpu", {}), ("ascend", COMPILE))
    }
    cpu, npu = (
        np.asarray(Image.open(made[backend].outputs[0].path), dtype=float)
        for backend in ("cpu", "ascend")
    )
    assert np.abs(npu - cpu).mean() < 1
    assert cpu.std() > 10
    where(made["ascend"])


def test_a_voice_without_a_provider_for_npus_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="hibari cannot run on npu:0: .*CPUExecutionProvider"):
        jumar.generate(requests.text2audio("hibari", "Hello.", backend="ascend"), out=tmp_path)


@pytest.mark.parametrize("model", SOURCES)
def test_a_large_model_runs(model: str, tmp_path: Path) -> None:
    """It ends with an artifact; what it shows is looked at by people."""
    from PIL import Image

    names = [f"{who}_{SOURCES[model]}_MODEL_SOURCE" for who in ("JUMAR", "OMNIRT")]
    source = next(filter(None, map(os.environ.get, names)), None)
    if source is None:
        lack(f"model source: neither {' nor '.join(names)} is set")
    ask: dict[str, Any] = {"model_path": source, "backend": "ascend", "seed": 1, **COMPILE}
    if model == "svd-xt":
        picture = tmp_path / "start.png"
        Image.new("RGB", (1024, 576), "olive").save(picture)
        request = requests.image2video(model, str(picture), **ask)
    elif model == "wan2.2-t2v-14b":
        request = requests.text2video(model, "A cat on a mat.", preset="balanced", **ask)
    else:
        request = requests.text2image(model, "A cat on a mat.", **ask)
    where(run(request, tmp_path))


@pytest.mark.parametrize("model", AVATARS)
def test_an_avatar_speaks(model: str, tmp_path: Path) -> None:
    """The script of the checkout that the variables name ends with a video of some length."""
    set_to = {}
    for what in ("REPO_PATH", "IMAGE_PATH", "AUDIO_PATH"):
        names = [f"{who}_{AVATARS[model]}_{what}" for who in ("JUMAR", "OMNIRT")]
        set_to[what] = next(filter(None, map(os.environ.get, names)), None)
        if set_to[what] is None:
            lack(f"avatar: neither {' nor '.join(names)} is set")
    request = requests.audio2video(
        model, str(set_to["IMAGE_PATH"]), str(set_to["AUDIO_PATH"]), backend="ascend"
    )
    result = run(request, tmp_path)
    assert result.metadata.device_placement["model"].startswith("npu:0")
    assert result.outputs[0].num_frames and result.outputs[0].duration_s

"""The first command of OmniRT's deployment page: a stand-in for the model's script, run on an
emulated card. It shows how the script is called, never what the model makes on an NPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.emulated.processes import python
from tests.support import avatars

MAIN = "from jumar.cli import main; main()"
PAGE = (
    *("generate", "--task", "audio2video", "--model", "soulx-flashtalk-14b"),
    *("--image", "input.png", "--audio", "input.wav", "--backend", "ascend"),
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where the page's command finds its inputs."""
    avatars.inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    return tmp_path


def omnirt(*arguments, **environ):
    return python(MAIN, *arguments, **environ)


def report(folder):
    (file,) = (folder / "jumar-out").glob("*.report.json")
    return json.loads(file.read_text())


def test_the_page_s_command_makes_a_video(folder):
    repository = avatars.checkout(folder)
    told = omnirt(
        *PAGE,
        OMNIRT_FLASHTALK_REPO_PATH=str(repository),
        OMNIRT_FLASHTALK_PYTHON_EXECUTABLE=sys.executable,
        CUDA_VISIBLE_DEVICES="0",
        ASCEND_RT_VISIBLE_DEVICES="1",
    )
    assert told.returncode == 0, told.stderr
    assert "on npu:0 (emulated)" in told.stderr
    (video,) = (folder / "jumar-out").glob("soulx-flashtalk-14b-*.mp4")
    assert told.stdout.strip().endswith(video.name)
    found = report(folder)
    assert found["artifacts"][0]["num_frames"] == 10
    assert found["config_origins"]["repo_path"] == "environment OMNIRT_FLASHTALK_REPO_PATH"
    assert found["config_resolved"]["launcher"] == "python"
    assert found["fingerprint"]["device_class"] == "npu-emulated"
    assert found["memory"] == {}, "nothing ran in this process, so nothing was measured"
    seen = json.loads((repository / "seen.json").read_text())["environ"]
    assert seen["ASCEND_RT_VISIBLE_DEVICES"] == "1"
    assert "CUDA_VISIBLE_DEVICES" not in seen


def test_without_a_checkout_it_says_how_to_get_one(folder):
    told = omnirt(*PAGE)
    assert told.returncode == 3
    assert "error[weights_unavailable]: soulx-flashtalk-14b is run from a checkout" in told.stderr
    assert "git clone https://github.com/Soul-AILab/SoulX-FlashTalk" in told.stderr
    assert "JUMAR_FLASHTALK_REPO_PATH or OMNIRT_FLASHTALK_REPO_PATH" in told.stderr


def test_without_an_npu_it_is_refused_before_anything(folder):
    repository = avatars.checkout(folder)
    told = omnirt(*PAGE, OMNIRT_FLASHTALK_REPO_PATH=str(repository), JUMAR_EMULATE_NPU=None)
    assert told.returncode == 3
    assert "error[device_unavailable]: ascend cannot be used here" in told.stderr
    assert not (repository / "seen.json").exists()

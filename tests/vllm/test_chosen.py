"""Which platform vLLM itself takes, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("vllm")

TAKEN = """
import logging
logging.basicConfig(level="INFO")  # vLLM 0.33 has no log of its own until it serves
from vllm.platforms import current_platform as p
print(type(p).__name__, p.device_type)
"""
ENGINE = """
import sys
from vllm import LLM
LLM(sys.argv[1], dtype="float32", max_model_len=64, kv_cache_memory_bytes=1 << 25)
"""
OTHER = """
from vllm.platforms.interface import UnspecifiedPlatform

class Other(UnspecifiedPlatform):
    device_type = "other"

def plugin():
    return "other.Other"
"""


def taken(folder: Path | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """What vLLM takes; `folder` is on the path too."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("JUMAR_VLLM_DEVICE", "JUMAR_EMULATE_NPU", "VLLM_PLUGINS")
    }
    path = {} if folder is None else {"PYTHONPATH": str(folder)}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", TAKEN],
        env={**kept, **path, **environ},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """Another platform from outside, installed."""
    (tmp_path / "other.py").write_text(OTHER)
    info = tmp_path / "other_platform-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-platform\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vllm.platform_plugins]\nother = other:plugin\n")
    return tmp_path


def test_a_machine_without_an_npu_is_left_alone():
    ran = taken()
    assert ran.stdout.splitlines()[-1].startswith("UnspecifiedPlatform"), ran.stderr
    assert "not active: No NPU" in ran.stdout + ran.stderr


def test_why_it_is_active_is_said_by_an_engine_in_one_process_without_a_log_of_its_own(
    tiny: Callable[[str], Path],
):
    own = {"JUMAR_VLLM_DEVICE": "cpu", "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ENGINE, str(tiny("qwen3"))],
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    said = ran.stdout + ran.stderr
    assert said.count("Jumar's platform is active on cpu: JUMAR_VLLM_DEVICE=cpu says so.") == 1


def test_a_device_that_is_none_ends_vllm_with_the_error():
    """vLLM passes over plugins that raise: then this would run on something else."""
    ran = taken(JUMAR_VLLM_DEVICE="npuu")
    assert ran.returncode != 0 and "JUMAR_VLLM_DEVICE=npuu is not valid" in ran.stderr


def test_another_platform_that_is_active_has_the_npu(other: Path):
    ran = taken(other, JUMAR_EMULATE_NPU="1")
    assert ran.stdout.splitlines()[-1] == "Other other", ran.stderr
    assert "'other' of other-platform" in ran.stdout + ran.stderr


def test_vllms_list_of_plugins_chooses_between_two(other: Path):
    ran = taken(other, JUMAR_EMULATE_NPU="1", VLLM_PLUGINS="jumar")
    assert ran.stdout.splitlines()[-1] == "NPUPlatform npu", ran.stderr


def test_two_that_are_asked_for_end_vllm_with_an_error(other: Path):
    ran = taken(other, JUMAR_VLLM_DEVICE="cpu")
    assert ran.returncode != 0 and "other" in ran.stderr

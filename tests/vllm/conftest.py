"""Specifications of the platform for vLLM. They run where vLLM is installed (`make test-vllm`), a
module that needs it begins with `pytest.importorskip("vllm")`:

JUMAR_VLLM_DEVICE=cpu pytest tests/vllm      on the CPU
JUMAR_EMULATE_NPU=2   pytest tests/vllm      on emulated NPUs

Engines run in the test's own process, so that a test can look into them; what starts processes of
its own (`vllm serve`, two ranks) says so.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

# Read by vLLM and torch when they are imported.
if find_spec("vllm"):
    os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
    os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    emulated = os.environ.get("JUMAR_EMULATE_NPU")
    if not emulated:
        os.environ.setdefault("JUMAR_VLLM_DEVICE", "cpu")
    elif "noise" not in emulated:
        os.environ["JUMAR_EMULATE_NPU"] += ",noise=off"  # tokens are compared one by one


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """`tiny("qwen3")`: the folder of a checkpoint of `tests.vllm.models`, made once."""
    from tests.vllm.models import make

    root = tmp_path_factory.mktemp("tiny")

    @cache
    def made(name: str) -> Path:
        if name == "qwen2_vl":
            pytest.importorskip("torchvision", reason="transformers sees pictures by torchvision")
        return make(name, root / name)

    return made

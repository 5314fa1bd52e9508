"""Two ranks that share a model give the tokens of transformers: gloo on the CPU, hccl on NPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.vllm import references
from tests.vllm.ranks import COUNT

pytest.importorskip("vllm")

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize("name", ["qwen3", "qwen3_moe"])
def test_two_ranks_give_the_tokens_of_one(name: str, tiny: Callable[[str], Path]) -> None:
    folder = tiny(name)
    done = subprocess.run(
        [sys.executable, "-m", "tests.vllm.ranks", str(folder), "2"],
        env={**os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert json.loads(done.stdout) == references.greedy(folder, references.MIXED, COUNT)

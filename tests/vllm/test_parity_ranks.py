"""Two ranks that share a model, or have one each, give the tokens of transformers: gloo on the CPU,
hccl on NPUs.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.vllm import references
from tests.vllm.engines import EMULATED
from tests.vllm.ranks import COUNT
from tests.vllm.serving import serve

pytest.importorskip("vllm")

ROOT = Path(__file__).parents[2]


METHODS = ["spawn"] if EMULATED else ["spawn", "fork"]
"""How a rank's process begins: a card that its parent used does not go along in a fork."""


@pytest.mark.long
@pytest.mark.parametrize("kind", ["tensor", "pipeline"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["qwen3", "qwen3_moe"])
def test_two_ranks_give_the_tokens_of_one(
    name: str, method: str, kind: str, tiny: Callable[[str], Path]
) -> None:
    folder = tiny(name)
    own = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "VLLM_WORKER_MULTIPROC_METHOD": method}
    done = subprocess.run(
        [sys.executable, "-m", "tests.vllm.ranks", str(folder), kind, "2"],
        env={**os.environ, **own},
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-12000:]
    assert json.loads(done.stdout) == references.greedy(folder, references.MIXED, COUNT)


@pytest.mark.long
def test_a_server_of_two_ranks_shows_what_both_bound_and_answers_as_transformers(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    folder = tiny("qwen3")
    asked = references.MIXED[:4]
    with serve(folder, tmp_path / "log", "--tensor-parallel-size", "2") as server:
        ranks = server.client.get("/jumar/operators").json()["processes"]
        told = server.post(
            "/v1/completions", prompt=asked, temperature=0, max_tokens=COUNT, ignore_eos=True,
            return_token_ids=True,
        )  # fmt: skip
    assert [one["rank"] for one in ranks] == [0, 1]
    assert len({one["pid"] for one in ranks}) == 2
    assert [one["device"] for one in ranks] == (["npu:0", "npu:1"] if EMULATED else ["cpu"] * 2)
    first, second = (one["operators"] for one in ranks)
    assert first and first == second
    made = [one["token_ids"] for one in told["choices"]]
    assert made == references.greedy(folder, asked, COUNT)


@pytest.mark.long
def test_two_engines_side_by_side_have_a_card_each_and_answer_as_transformers(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    folder, log = tiny("qwen3"), tmp_path / "log"

    def asked(prompt: list[int]) -> list[int]:
        body = {"prompt": prompt, "temperature": 0, "max_tokens": COUNT, "ignore_eos": True}
        told = server.post("/v1/completions", **body, return_token_ids=True)["choices"][0]
        ids: list[int] = told["token_ids"]
        return ids

    with (
        serve(folder, log, "--data-parallel-size", "2") as server,
        ThreadPoolExecutor(len(references.MIXED)) as callers,
    ):
        made = list(callers.map(asked, references.MIXED))
    assert made == references.greedy(folder, references.MIXED, COUNT)
    devices = re.findall(r"Operators on (cpu|npu:\d)", log.read_text())
    assert sorted(devices) == (["npu:0", "npu:1"] if EMULATED else ["cpu", "cpu"])

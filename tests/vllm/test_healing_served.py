"""A real `vllm serve` on an emulated NPU with one bad operator: named, quarantined, equal tokens.

Each fault stays on until the end: what heals is that nobody asks that operator any more.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm")
import httpx

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not os.environ.get("JUMAR_EMULATE_NPU"), reason="emulated NPUs are off"),
]

STARTING_S = 900.0
"""On a machine that is shared; alone it takes half a minute."""

REQUEST = {
    "prompt": "the quick brown fox",
    "max_tokens": 16,
    "temperature": 0,
    "ignore_eos": True,
    "return_token_ids": True,
}


@contextmanager
def served(model: Path, folder: Path, fault: str, *options: str) -> Iterator[str]:
    """The address of `jumar vllm serve` with this fault; it ends with exit code 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environ = {
        **os.environ,
        "JUMAR_EMULATE_NPU": "1,noise=off",
        "JUMAR_EMULATE_FAULTS": f"{{faults: [{fault}]}}" if fault else "",
        "JUMAR_EVIDENCE": str(folder / "evidence"),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "1",
    }
    command = [
        *(sys.executable, "-m", "jumar", "vllm", "serve", str(model)),
        *("--dtype", "float32", "--max-model-len", "1024", "--enforce-eager"),
        *("--kv-cache-memory-bytes", "64000000", "--port", str(port), *options),
    ]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}"
            process.send_signal(signal.SIGTERM)
            assert process.wait(120) == 0
        finally:
            process.kill()
            process.wait()


def healthy(address: str) -> dict[str, Any]:
    """What it says of itself once it answers callers."""
    until = time.monotonic() + STARTING_S
    said: dict[str, Any] = {}
    while time.monotonic() < until:
        try:
            answer = httpx.get(f"{address}/jumar/health", timeout=5)
        except httpx.TransportError:
            time.sleep(0.5)
            continue
        said = answer.json()
        assert said["state"] != "failed", said
        if answer.status_code == 200:
            return said
        time.sleep(0.5)
    raise AssertionError(f"not ready: {said}")


def tokens(address: str, model: Path) -> list[int]:
    """The tokens that a caller gets, however long it takes."""
    answer = httpx.post(
        f"{address}/v1/completions", json={"model": str(model), **REQUEST}, timeout=STARTING_S
    )
    assert answer.status_code == 200, answer.text
    told: list[int] = answer.json()["choices"][0]["token_ids"]
    return told


def wanted(model: Path) -> list[int]:
    """Hugging Face's greedy tokens, without any of our code."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ids = AutoTokenizer.from_pretrained(model)(REQUEST["prompt"])["input_ids"]
    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    known = torch.tensor([ids])
    with torch.inference_mode():
        for _ in range(int(str(REQUEST["max_tokens"]))):
            best = loaded(known).logits[:, -1].argmax(-1, keepdim=True)
            known = torch.cat([known, best], 1)
    return [int(token) for token in known[0, len(ids) :]]


@pytest.mark.parametrize(
    ("fault", "verdict", "options"),
    [
        ('{op: mm, kind: abort, calls: ">=40"}', "aborts", ()),
        ('{op: mm, kind: hang, calls: ">=40"}', "hangs", ("--jumar-silence", "30")),
        ('{op: mm, kind: raise, calls: ">=40"}', "raises", ()),
        ('{op: mm, kind: wrong, how: lanes, calls: ">=40"}', "wrong", ("--jumar-shadow", "8")),
    ],
)
def test_a_caller_gets_his_tokens_although_an_operator_fails_under_the_running_server(
    tiny: Callable[[str], Path], tmp_path: Path, fault: str, verdict: str, options: tuple[str, ...]
) -> None:
    model = tiny("qwen3")
    with served(model, tmp_path, fault, *options) as address:
        assert healthy(address)["healed"] == []
        assert tokens(address, model) == wanted(model)
        found = {(one["operator"], one["verdict"]) for one in healthy(address)["healed"]}
        assert found == {("aten::mm", verdict)}
        assert tokens(address, model) == wanted(model)


@pytest.mark.parametrize(
    ("operator", "guilty"), [("mm", "aten::mm"), ("npu_rms_norm", "npu::npu_rms_norm")]
)
def test_wrong_numbers_from_the_start_are_found_before_anybody_is_answered(
    tiny: Callable[[str], Path], tmp_path: Path, operator: str, guilty: str
) -> None:
    from jumar.vllm.healing.recording import record

    model = tiny("qwen3")
    golden = record(str(model), tmp_path / "golden").parent
    fault = f"{{op: {operator}, kind: wrong, how: lanes}}"
    with served(model, tmp_path, fault, "--jumar-golden", str(golden)) as address:
        found = {(one["operator"], one["verdict"]) for one in healthy(address)["healed"]}
        assert found == {(guilty, "wrong")}
        assert tokens(address, model) == wanted(model)


@pytest.mark.parametrize(
    ("name", "route"), [("bert", "/v1/embeddings"), ("bert_classes", "/classify")]
)
def test_a_server_that_pools_is_not_ready_while_an_operator_computes_wrong_numbers(
    tiny: Callable[[str], Path], tmp_path: Path, name: str, route: str
) -> None:
    from jumar.vllm.healing.recording import record

    model = tiny(name)
    golden = record(str(model), tmp_path / "golden").parent
    fault = "{op: addmm, kind: wrong, how: lanes}"
    options = ("--jumar-golden", str(golden), "--max-model-len", "512")
    with served(model, tmp_path, fault, *options) as address:
        said = healthy(address)
        assert said["starts"] == 2
        found = {(one["operator"], one["verdict"]) for one in said["healed"]}
        assert found == {("aten::addmm", "wrong")}
        body = {"model": str(model), "input": REQUEST["prompt"]}
        answer = httpx.post(f"{address}{route}", json=body, timeout=STARTING_S)
        assert answer.status_code == 200, answer.text


def test_a_healthy_server_matches_its_golden_answers_at_once(
    tiny: Callable[[str], Path], tmp_path: Path
) -> None:
    from jumar.vllm.healing.recording import record

    model = tiny("qwen3")
    golden = record(str(model), tmp_path / "golden").parent
    with served(model, tmp_path, "", "--jumar-golden", str(golden)) as address:
        assert healthy(address)["starts"] == 1
        assert tokens(address, model) == wanted(model)

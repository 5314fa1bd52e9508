"""SIGTERM while callers wait: each gets an answer or an error, and every process ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")

from tests.vllm.serving import free_port, serve  # noqa: E402

ROOT = Path(__file__).parents[2]
GRACE_S = 2.0
PROGRAM = """
import sys, time
from jumar.vllm.healing import running
from jumar.vllm.healing.healing import Healing, Options

def look(*_, **__):
    time.sleep(600)

folder, engine, port, grace = sys.argv[1:]
running.GRACE_S = float(grace)
made = lambda: Healing(Options([folder], "cpu"), program=(sys.executable, engine), look=look)
sys.exit(running.run(made, host="127.0.0.1", port=int(port)))
"""


@contextmanager
def fronted(folder: Path, faults: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A front over the engine of paper in a process of its own, and its address."""
    (folder / "faults").write_text(faults)
    port = free_port()
    engine = Path(__file__).with_name("engine_of_paper.py")
    command = [sys.executable, "-c", PROGRAM, str(folder), str(engine), str(port), str(GRACE_S)]
    process = subprocess.Popen(command, cwd=ROOT)
    try:
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait()


def stopped(process: subprocess.Popen[bytes], within: float) -> None:
    """It ends with exit code 0 within so many seconds, and leaves no process."""
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGTERM)
    began = time.monotonic()
    assert process.wait(60) == 0
    assert time.monotonic() - began < within
    _, alive = psutil.wait_procs(below, timeout=10)
    assert not alive


def said(address: str, state: str) -> None:
    """Wait until it says that it is in this state."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            if httpx.get(f"{address}/jumar/health", timeout=5).json()["state"] == state:
                return
        except httpx.TransportError:
            pass  # nobody listens yet
        time.sleep(0.05)
    raise AssertionError(f"never {state}")


def asked(callers: ThreadPoolExecutor, address: str, **body: Any) -> Future[Any]:
    """A request that is on its way."""
    coming = callers.submit(httpx.post, f"{address}/v1/completions", json=body, timeout=120)
    time.sleep(0.7)
    assert not coming.done()
    return coming


def test_an_answer_that_comes_soon_after_the_signal_is_given(tmp_path: Path) -> None:
    with fronted(tmp_path, "naps") as (address, process), ThreadPoolExecutor() as callers:
        said(address, "ready")
        coming = asked(callers, address, prompt="a")
        stopped(process, within=GRACE_S + 5)
        assert coming.result().json() == {"start": 0, "body": {"prompt": "a"}}


@pytest.mark.parametrize(
    ("faults", "state"),
    [("hangs", "ready"), ("loads", "starting"), ("dies", "investigating")],
)
def test_who_has_no_answer_in_time_is_told_that_the_server_stops(
    tmp_path: Path, faults: str, state: str
) -> None:
    with fronted(tmp_path, faults) as (address, process), ThreadPoolExecutor() as callers:
        said(address, "starting" if state == "starting" else "ready")
        coming = asked(callers, address, prompt="a")
        said(address, state)
        stopped(process, within=GRACE_S + 8)
        answer = coming.result()
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "not_ready"
        assert answer.json()["error"]["message"] == "This server is stopping."


def test_a_stream_that_goes_on_ends_with_an_error_event(tmp_path: Path) -> None:
    with fronted(tmp_path, "trickles") as (address, process), ThreadPoolExecutor() as callers:
        said(address, "ready")
        coming = asked(callers, address, prompt="a", stream=True)
        stopped(process, within=GRACE_S + 8)
        *events, last = coming.result().text.strip().split("\n\n")
        assert len(events) > 3 and set(events) == {"data: 1"}
        assert '"message": "This server is stopping."' in last


@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--shutdown-timeout", "1")])
def test_vllm_itself_stops_under_load_and_no_caller_waits_for_ever(
    tiny: Callable[[str], Path], tmp_path: Path, options: tuple[str, ...]
) -> None:
    pytest.importorskip("vllm")
    body = {"model": "served", "prompt": "a", "max_tokens": 1900, "ignore_eos": True}
    body |= {"n": 16, "seed": 1}
    log, options = tmp_path / "log", ("--max-model-len", "2048", *options)
    with ThreadPoolExecutor() as callers, serve(tiny("qwen3"), log, *options) as server:
        streams = asked(callers, server.url, **body, stream=True)
        whole = [asked(callers, server.url, **body) for _ in range(2)]
        began = time.monotonic()
        server.stop()
        assert time.monotonic() - began < 15
        told = streams.result(10).text[-1000:]
        assert '"error"' in told or '"abort"' in told, told
        for answer in [coming.result(10) for coming in whole]:
            cut = answer.status_code == 200 and '"abort"' in answer.text
            assert cut or answer.status_code == 500, answer.text[:300]

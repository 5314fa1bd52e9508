"""`vllm serve` in processes of its own, from its start to the last of them gone."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

NAME = "served"
"""What the model is called in requests."""
USUAL = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1"}
"""Where the environment does not say otherwise; more threads make small steps slower."""
PATIENT = 600.0
"""Seconds that a start may take on a machine with much else to do."""


@dataclass
class Server:
    """A server that is healthy, and how it ended."""

    url: str
    log: Path
    process: subprocess.Popen[bytes]
    client: httpx.Client
    started_s: float
    """From the start of the process until it was healthy."""
    status: int | None = None
    """The exit status, once it has ended."""
    left: list[str] = field(default_factory=list)
    """Processes of it that were still there when it had ended."""

    def post(self, route: str, **body: Any) -> Any:
        """The answer to `body`, about this model, as JSON."""
        answer = self.client.post(route, json={"model": NAME, **body})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def chat(self, content: Any, count: int, **body: Any) -> Any:
        """The first choice of a greedy answer of at most `count` tokens, with their ids."""
        return self.post(
            "/v1/chat/completions",
            messages=[{"role": "user", "content": content}],
            temperature=0,
            max_tokens=count,
            return_token_ids=True,
            **body,
        )["choices"][0]

    def stop(self) -> None:
        """Ask it to end, and see what is left."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.process.send_signal(signal.SIGTERM)
        self.status = self.process.wait(PATIENT)
        _, alive = psutil.wait_procs(workers, timeout=30)
        self.left = [f"{one.pid} {one.name()}" for one in alive]
        for one in alive:
            one.kill()

    def ended_cleanly(self) -> None:
        """AssertionError where it did not."""
        assert self.status == 0, self.log.read_text(errors="replace")[-4000:]
        assert not self.left, f"still there: {', '.join(self.left)}"


@contextmanager
def serve(
    folder: Path, log: Path, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """A server of the model in `folder`, float32; `options` go to `vllm serve`.

    It is stopped when the block is left, unless the test has done so, and has to end cleanly.
    """
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--served-model-name", NAME]
    command += ["--dtype", "float32", "--max-model-len", "512", "--max-num-seqs", "16"]
    command += ["--kv-cache-memory-bytes", str(128 << 20), *options]
    own = {**USUAL, **os.environ, "VLLM_ENABLE_V1_MULTIPROCESSING": "1", **(environ or {})}
    begun = time.monotonic()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env=own, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_healthy(url, process, log)
        with httpx.Client(base_url=url, timeout=PATIENT) as client:
            server = Server(url, log, process, client, time.monotonic() - begun)
            yield server
            if server.status is None:
                server.stop()
            server.ended_cleanly()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def wait_until_healthy(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    """Ask /health until it is 200; AssertionError with the end of the log where it ends first."""
    limit = time.monotonic() + PATIENT
    while time.monotonic() < limit:
        assert process.poll() is None, log.read_text(errors="replace")[-4000:]
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            pass  # nobody listens yet
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-4000:])


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port

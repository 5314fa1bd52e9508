"""What requests leave in a server's memory: nothing, but for what has a bound.

    python -m benchmarks.steady [KIND …] [--requests N]

One server per kind, so that what grew has a name. The first half fills what has a bound: caches,
pools of threads, buffers. What the second half adds is what stays of a request.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from tests.support.serving import Process

from benchmarks import noop
from benchmarks.soak import rss, workers_of

CALLERS = 16
READY_S = 300.0
REMEMBERED = "500"
"""Texts whose vectors are kept: few, so that the first half fills it."""
ENCODER = "all-minilm-l6-v2"

Ask = Callable[[int], tuple[str, str, Any]]
"""Of a number: method, path, body."""


@dataclass(frozen=True)
class Kind:
    """One kind of request to a server of one model; `kills`: its worker is lost before each, and
    there are a hundredth as many.
    """

    ask: Ask
    model: str = "noop"
    kills: bool = False


def _generate(**more: Any) -> Ask:
    return lambda number: ("POST", "/v1/generate", {"model": "noop", **more})


def _vectors(number: int) -> tuple[str, str, Any]:
    return "POST", "/v1/embeddings", {"model": ENCODER, "input": f"rope number {number}"}


KINDS = {
    "health": Kind(lambda number: ("GET", "/health", None)),
    "metrics": Kind(lambda number: ("GET", "/metrics", None)),
    "unknown": Kind(lambda number: ("GET", f"/nothing/{number}", None)),
    "refused": Kind(_generate(inputs={"prompt": "", "nothing": 1})),
    "generate": Kind(_generate(inputs={"prompt": ""})),
    "file": Kind(_generate(inputs={"prompt": "a file"})),
    "job": Kind(_generate(inputs={"prompt": "a file"}, async_run=True)),
    "vectors": Kind(_vectors, ENCODER),
    "killed": Kind(_vectors, ENCODER, kills=True),
}
"""Requests that cost the server much and the model little."""


def main() -> int:
    """Print resident memory, and what each request of the second half left there."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steady")
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND")
    parser.add_argument("--requests", type=int, default=10_000)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    columns = ("ready", "after a half", "after all", "left per request (B)")
    print(f"{'(MB)':<12}{''.join(f'{name:>22}' for name in columns)}", flush=True)
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder:
            _measured(kind, Path(folder), options.requests // 2)
    return 0


def _measured(name: str, folder: Path, half: int) -> None:
    kind = KINDS[name]
    half = half // 100 if kind.kills else half
    noop.install(folder)
    line = [
        kind.model,
        "--device",
        "cpu",
        "--log-level",
        "error",
        "--result-cache-entries",
        REMEMBERED,
    ]
    server = Process(folder, folder / "data", *line)
    try:
        _wait_until_ready(server)
        numbers = itertools.count()
        seen = [rss(server.pid)]
        for _ in range(2):
            asyncio.run(_asked(server, itertools.islice(numbers, half), kind))
            _wait_for_jobs(server)
            seen.append(rss(server.pid))
    finally:
        server.close()
    left = (seen[2] - seen[1]) * 1e6 / half
    print(f"{name:<12}{''.join(f'{mb:>22.1f}' for mb in seen)}{left:>22.0f}", flush=True)


async def _asked(server: Process, numbers: Iterator[int], kind: Kind) -> None:
    async def caller(client: aiohttp.ClientSession) -> None:
        for number in numbers:
            for pid in workers_of(server.pid) if kind.kills else ():
                os.kill(pid, signal.SIGKILL)
            method, path, body = kind.ask(number)
            while await _status(client, method, server.url + path, body) == 429:
                await asyncio.sleep(0.1)  # the queue is full of jobs, for which nobody waits

    async with aiohttp.ClientSession() as client:
        callers = 1 if kind.kills else CALLERS
        await asyncio.gather(*(caller(client) for _ in range(callers)))


async def _status(client: aiohttp.ClientSession, method: str, url: str, body: Any) -> int:
    async with client.request(method, url, json=body) as answer:
        await answer.read()
        return answer.status


def _wait_until_ready(server: Process) -> None:
    until = time.monotonic() + READY_S
    while server.client.get("/readyz").status_code != 200:
        assert time.monotonic() < until, server.client.get("/health").text
        time.sleep(0.2)


def _wait_for_jobs(server: Process) -> None:
    for state in ("queued", "running"):
        while server.client.get("/v1/jobs", params={"state": state, "limit": 1}).json()["data"]:
            time.sleep(0.2)
    time.sleep(1.0)  # what is written behind the answers


if __name__ == "__main__":
    sys.exit(main())

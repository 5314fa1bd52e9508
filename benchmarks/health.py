"""How long a probe waits while a job computes for five seconds: here, and in other shapes.

    python -m benchmarks health

Each server is a process of its own, and so is the prober: one GET /health every 10 ms. The peers
run the same job as many servers do: in the event loop itself (an `async def` route that computes),
and in a thread of it (a plain `def` route).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks import noop

EVERY_S = 0.01
PATIENCE_S = 120.0


def main() -> None:
    """Print milliseconds: median, 99th percentile, most."""
    print(f"\n{'/health (ms)':<52}{'median':>10}{'p99':>10}{'most':>10}{'probes':>8}")
    with tempfile.TemporaryDirectory() as folder:
        noop.install(Path(folder))
        with _jumar(Path(folder)) as url:
            _row("jumar serve, idle", url, None)
            body = {"model": "noop", "inputs": {"prompt": "busy"}}
            _row("jumar serve, while a job computes", url, ("/v1/generate", body))
            encoded = {"model": "noop", "inputs": {"prompt": "busy"}, "async_run": True}
            _row("jumar serve, while a job (async_run) computes", url, ("/v1/generate", encoded))
    with _peer() as url:
        _row("peer, idle", url, None)
        _row("peer, job in a thread of the server", url, ("/in_thread", {}))
        _row("peer, job in the event loop", url, ("/in_loop", {}))


def _row(name: str, url: str, job: tuple[str, Any] | None) -> None:
    """Probe for as long as a job takes."""
    posted = threading.Thread(target=_post, args=(url, job), daemon=True)
    posted.start()
    time.sleep(0.3 if job else 0.0)
    waits = sorted(_probe(url, noop.BUSY_S - 0.5))
    posted.join(PATIENCE_S)
    p99 = waits[round(0.99 * (len(waits) - 1))]
    middle = waits[len(waits) // 2]
    print(f"{name:<52}{middle:>10.2f}{p99:>10.2f}{waits[-1]:>10.2f}{len(waits):>8}", flush=True)


def _post(url: str, job: tuple[str, Any] | None) -> None:
    if job is not None:
        httpx.post(url + job[0], json=job[1], timeout=PATIENCE_S).raise_for_status()


def _probe(url: str, seconds: float) -> list[float]:
    """Milliseconds that each probe waited."""
    where = urlsplit(url)
    connection = HTTPConnection(where.hostname or "", where.port, timeout=PATIENCE_S)
    waits, until = [], time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        connection.request("GET", "/health")
        connection.getresponse().read()
        waits.append((time.perf_counter() - begun) * 1e3)
        time.sleep(EVERY_S)
    return waits


@contextmanager
def _jumar(site: Path) -> Iterator[str]:
    line = [
        "-m",
        "jumar",
        "serve",
        "noop",
        "--device",
        "cpu",
        "--port",
        "0",
        "--log-level",
        "error",
    ]
    line += ["--log-level", "error", "--data-dir", str(site / "data")]
    with _started(line, {"PYTHONPATH": os.pathsep.join([str(site), *sys.path])}) as url:
        until = time.monotonic() + PATIENCE_S
        while httpx.get(f"{url}/readyz").status_code != 200 and time.monotonic() < until:
            time.sleep(0.1)
        yield url


@contextmanager
def _peer() -> Iterator[str]:
    with _started(["-m", "benchmarks.health", "peer"], {}) as url:
        yield url


@contextmanager
def _started(line: list[str], env: dict[str, str]) -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, *line], env={**os.environ, **env}, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    heard = iter(process.stderr)
    said = next(found[1] for one in heard if (found := re.search(r"(http://[\d.:]+)", one)))
    threading.Thread(target=lambda: list(heard), daemon=True).start()
    try:
        yield said
    finally:
        process.terminate()
        process.wait()


def serve_peer() -> None:
    """The other shapes: the same framework and server as Jumar's, and the job inside."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    def compute() -> None:
        class Quiet:
            def step(self, done: int, total: int | None = None) -> None:
                """Nobody listens."""

        noop.busy(Quiet())

    async def health(request: Request) -> JSONResponse:
        return JSONResponse({"status": "ready"})

    async def in_loop(request: Request) -> JSONResponse:
        compute()
        return JSONResponse({})

    def in_thread(request: Request) -> JSONResponse:
        compute()
        return JSONResponse({})

    routes = [
        Route("/health", health),
        Route("/in_loop", in_loop, methods=["POST"]),
        Route("/in_thread", in_thread, methods=["POST"]),
    ]
    config = uvicorn.Config(Starlette(routes=routes), port=0, access_log=False)
    uvicorn.Server(config).run()


if __name__ == "__main__":
    serve_peer() if sys.argv[1:] == ["peer"] else main()

"""What a server costs: on a model that does nothing, and to a probe while another works."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support import toy
from tests.support.serving import Running, serving

from jumar.catalog.index import catalog
from jumar.contracts.requests import text2audio
from jumar.engine.visit import Visit

REQUESTS = 300


def main() -> None:
    """Print milliseconds: median, 99th percentile, most."""
    import sys

    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder, "site")
        site.mkdir()
        toy.install(site)
        sys.path.insert(0, str(site))
        catalog.cache_clear()
        with serving(Path(folder, "data"), "toy") as server:
            server.ready()
            print(f"{'serving (ms)':<44}{'median':>10}{'p99':>10}{'most':>10}")
            _row("no-op: bare call of its worker", _bare(server, folder))
            _row("no-op: queue and worker", _engine(server, folder))
            _row("no-op: HTTP, queue and worker", lambda: server.ask("a"))
            _row("no-op: HTTP alone (/healthz)", lambda: server.client.get("/healthz"))
            with _Busy(server):
                _row("/health while a job runs", lambda: server.client.get("/health"))
                _row("/v1/models while a job runs", lambda: server.client.get("/v1/models"))


def _visit(folder: str) -> Visit:
    request = text2audio("toy", "a", backend="cpu")
    return Visit(request, out=Path(folder, "out"), overwrite=True, listener=None, cancel=None)


def _engine(server: Running, folder: str) -> Callable[[], object]:
    return lambda: server.desk.house.answer(_visit(folder)).result()


def _bare(server: Running, folder: str) -> Callable[[], object]:
    from jumar.engine import watch

    model = watch("toy")
    return lambda: model.answer(_visit(folder))


class _Busy:
    """While one job of the toy runs."""

    def __init__(self, server: Running) -> None:
        self._server = server

    def __enter__(self) -> None:
        self._job = self._server.ask("slow", async_run=True).json()["id"]
        while self._state() != "running":
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        assert self._state() == "running", "it was over before the probes were"
        self._server.client.delete(f"/v1/jobs/{self._job}")

    def _state(self) -> str:
        found = self._server.client.get(f"/v1/jobs/{self._job}")
        state: str = json.loads(found.content)["state"]
        return state


def _row(name: str, call: Callable[[], object]) -> None:
    call()
    times = []
    for _ in range(REQUESTS):
        begun = time.perf_counter()
        call()
        times.append((time.perf_counter() - begun) * 1e3)
    times.sort()
    p99 = times[round(0.99 * (len(times) - 1))]
    print(f"{name:<44}{statistics.median(times):>10.2f}{p99:>10.2f}{times[-1]:>10.2f}", flush=True)

"""What HTTP costs on a model that does nothing; `overhead` and `health` tell the rest of it."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support import toy
from tests.support.serving import serving

from jumar.catalog.index import catalog

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
            _row("no-op: HTTP, queue and worker", lambda: server.ask("a"))
            _row("no-op: HTTP alone (/healthz)", lambda: server.client.get("/healthz"))


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

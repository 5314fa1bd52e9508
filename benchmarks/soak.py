"""Workers are killed under load: what callers get, and what the server's memory does.

    make soak                       # or: python -m benchmarks.soak [--requests N] [--every SECONDS]

`jumar serve` with four models, two workers each; 64 callers ask for vectors, speech, pictures and
transcripts, one in twenty as a job. Every few seconds one worker is ended with SIGKILL. An answer
is right where it is that of its own request, as a model in this process gave it before: all
requests of a kind differ, so that one which got another's answer is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.support.serving import Process

from benchmarks.soak_requests import Ask, asks

CALLERS = 64
WORKERS = 2
JOBS = 0.05
REMEMBERED = "200"
"""Texts whose vectors are kept: a cache that fills to the end would look like a leak."""
PATIENCE_S = 600.0
READY_S = 900.0


@dataclass
class Tally:
    """What came of the requests."""

    ended: dict[str, Counter[str]] = field(default_factory=dict)
    codes: Counter[str] = field(default_factory=Counter)
    names: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def add(self, kind: str, how: str) -> None:
        """`right`, `wrong`, `lost`, or `error CODE`."""
        word, _, code = how.partition(" ")
        self.ended.setdefault(kind, Counter())[word] += 1
        if code:
            self.codes[code] += 1

    def count(self, word: str) -> int:
        """Over all kinds."""
        return sum(one[word] for one in self.ended.values())


class Memory:
    """Resident memory of the server and of all its workers, in MB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.seen: list[tuple[float, float]] = []

    def look(self) -> None:
        """Read it now."""
        workers = sum(rss(pid) for pid in workers_of(self._pid))
        self.seen.append((rss(self._pid), workers))


def main() -> int:
    """Print the table; 1 where a request was lost, wrong or twice, or too many failed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two kills")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"  # eight workers share the cores
    with tempfile.TemporaryDirectory() as folder:
        todo = asks(options.requests, Path(folder, "expected"))
        models = sorted({ask.model for ask in todo})
        line = [*models, "--device", "cpu", "--workers", str(WORKERS), "--log-level", "warning"]
        line += ["--result-cache-entries", REMEMBERED]
        server = Process(Path(folder), Path(folder, "data"), *line)
        try:
            _wait_until_ready(server, models)
            return asyncio.run(_soak(server, todo, options.every, Path(folder, "data")))
        finally:
            server.close()


async def _soak(server: Process, todo: list[Ask], every: float, data: Path) -> int:
    tally, memory, killed = Tally(), Memory(server.pid), []
    left = iter(list(enumerate(todo)))
    memory.look()
    begun = time.monotonic()
    beside = [
        asyncio.ensure_future(_kill(server.pid, every, killed)),
        asyncio.ensure_future(_every(5.0, memory.look)),
    ]
    bounds = httpx.Limits(max_connections=CALLERS)
    async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S, limits=bounds) as client:
        await asyncio.gather(*(_caller(client, left, tally) for _ in range(CALLERS)))
        spent = time.monotonic() - begun
        for one in beside:
            one.cancel()
        memory.look()
        twice = _twice(data / "artifacts", tally.names)
        still = (await client.get("/v1/models")).json()["data"]
    waiting = sum(card["waiting"] for card in still)
    _print(tally, memory, len(todo), len(killed), spent, twice, waiting)
    right = tally.count("right") / len(todo)
    bad = tally.count("wrong") + tally.count("lost") + twice + waiting
    return int(bool(bad) or right < 0.99)


async def _caller(client: httpx.AsyncClient, left: Iterator[tuple[int, Ask]], tally: Tally) -> None:
    for number, ask in left:
        name = f"soak-{number}"
        as_job = ask.path == "/v1/generate" and random.Random(number).random() < JOBS
        begun = time.monotonic()
        try:
            how = await (_job if as_job else _plain)(client, ask, name)
        except httpx.TimeoutException:
            how = "lost"
        except httpx.HTTPError as error:
            how = f"error {type(error).__name__}"
        tally.slowest = max(tally.slowest, time.monotonic() - begun)
        tally.names.append(name)
        tally.add(ask.kind, how)


async def _plain(client: httpx.AsyncClient, ask: Ask, name: str) -> str:
    response = await client.post(ask.path, json=ask.body, headers={"X-Request-ID": name})
    if response.status_code != 200:
        return f"error {response.json()['error']['code']}"
    return await _judged(client, ask, response.json())


async def _job(client: httpx.AsyncClient, ask: Ask, name: str) -> str:
    body = {**ask.body, "async_run": True}
    response = await client.post(ask.path, json=body, headers={"X-Request-ID": name})
    if response.status_code != 202:
        return f"error {response.json()['error']['code']}"
    where = response.headers["location"]
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        job = (await client.get(where)).json()
        if job["state"] == "succeeded":
            return await _judged(client, ask, job["result"])
        if job["state"] in ("failed", "cancelled"):
            return f"error {job['error_detail']['code']}"
        await asyncio.sleep(0.25)
    return "lost"


async def _judged(client: httpx.AsyncClient, ask: Ask, answer: Any) -> str:
    content = b""
    if ask.path == "/v1/generate":
        (output,) = answer["outputs"]
        content = (await client.get(output["path"])).content
    return "right" if ask.is_right(answer, content) else "wrong"


async def _kill(server: int, every: float, killed: list[int]) -> None:
    """One worker after the other, drawn among those that live."""
    draw = random.Random(0)
    while True:
        await asyncio.sleep(every)
        if alive := workers_of(server):
            os.kill(draw.choice(alive), signal.SIGKILL)
            killed.append(1)


async def _every(seconds: float, what: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        what()


def workers_of(server: int) -> list[int]:
    """Server, zygote, guard, worker: processes of the third generation."""
    found = [server]
    for _ in range(3):
        found = [child for pid in found for child in _children(pid)]
    return sorted(found)


def _children(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:  # it has ended
        return []


def rss(pid: int) -> float:
    """Resident memory of a process in MB; 0 where there is none."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _twice(folder: Path, names: list[str]) -> int:
    """Requests that have more than one run that came to its end."""
    done: Counter[str] = Counter()
    for file in folder.glob("*.report.json"):
        report = json.loads(file.read_text())
        if report["error"] is None:
            done[report["trace_id"]] += 1
    return sum(1 for name in names if done[name] > 1)


def _wait_until_ready(server: Process, models: list[str]) -> None:
    until = time.monotonic() + READY_S
    while time.monotonic() < until:
        states = server.client.get("/health").json()["models"]
        if all(states.get(name, {}).get("status") == "ready" for name in models):
            return
        time.sleep(0.5)
    raise SystemExit(f"not ready after {READY_S:g} s: {states}\n{''.join(server.said[-20:])}")


def _print(
    tally: Tally, memory: Memory, asked: int, kills: int, spent: float, twice: int, waiting: int
) -> None:
    print(f"\n{'(requests)':<16}{'asked':>8}{'right':>8}{'error':>8}{'wrong':>8}{'lost':>8}")
    for kind, ended in sorted(tally.ended.items()):
        cells = "".join(f"{ended[word]:>8}" for word in ("right", "error", "wrong", "lost"))
        print(f"{kind:<16}{sum(ended.values()):>8}{cells}")
    cells = "".join(f"{tally.count(word):>8}" for word in ("right", "error", "wrong", "lost"))
    print(f"{'all':<16}{asked:>8}{cells}")
    print(
        f"right {100 * tally.count('right') / asked:.2f} %, twice {twice}, left waiting {waiting}"
    )
    print(f"errors: {dict(tally.codes) or 'none'}")
    print(f"{kills} workers killed in {spent:.0f} s; slowest answer {tally.slowest:.1f} s")
    for name, column in (("server", 0), ("workers", 1)):
        series = [one[column] for one in memory.seen]
        after = ", ".join(f"{series[len(series) * part // 10]:.0f}" for part in (1, 3, 5, 7))
        print(
            f"{name} resident MB: {series[0]:.0f} before, {after} after 1, 3, 5, 7 tenths,"
            f" {series[-1]:.0f} at the end, {max(series):.0f} at most"
        )


if __name__ == "__main__":
    sys.exit(main())

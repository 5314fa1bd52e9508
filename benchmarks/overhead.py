"""What the engine adds to a request: a model that does nothing, asked through queue and worker.

    python -m benchmarks overhead

Rounds of all rows in turn, so that other work on the machine meets each; CPU time is that of this
process and the worker. Twice: as the kernel places the processes, and each on a core of its own.
Linux likes to wake a receiver on its sender's core, where what could be done at the same time is
done one after the other.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from benchmarks import isolate, noop
from jumar import catalog
from jumar.catalog.index import catalog as index
from jumar.contracts.requests import text2audio
from jumar.engine.placed import PlacedModel
from jumar.engine.served import Served
from jumar.engine.visit import Visit
from jumar.isolate import Zygote

ROUNDS, CALLS = 60, 10
SHM = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""The engine is measured, not a disk that others may be writing to."""


@dataclass
class Row:
    """One way to ask, its rounds in milliseconds per call, and CPU time of both processes."""

    name: str
    call: Callable[[], object]
    pid: int | None = None
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def round(self) -> None:
        """Ask `CALLS` times."""
        cpu = self._spent()
        for _ in range(CALLS):
            begun = time.perf_counter()
            self.call()
            self.wall.append((time.perf_counter() - begun) * 1e3)
        self.cpu.append((self._spent() - cpu) * 1e3 / CALLS)

    def shown(self) -> str:
        """Its line; the next rounds begin anew."""
        wall, cpu = sorted(self.wall), statistics.median(self.cpu)
        self.wall, self.cpu = [], []
        best, median, p99 = wall[0], statistics.median(wall), wall[round(0.99 * (len(wall) - 1))]
        return f"{self.name:<52}{best:>9.3f}{median:>9.3f}{p99:>9.3f}{cpu:>9.3f}"

    def _spent(self) -> float:
        """CPU seconds of this process and of the other, in the nanoseconds of its scheduler."""
        if self.pid is None:
            return time.process_time()
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        other = sum(int((task / "schedstat").read_text().split()[0]) for task in tasks)
        return time.process_time() + other / 1e9


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory(dir=SHM) as folder, ExitStack() as until:
        site = Path(folder, "site")
        site.mkdir()
        noop.install(site)
        sys.path.insert(0, str(site))
        index.cache_clear()
        rows = list(_rows(Path(folder, "out"), until))
        _compared(rows, "as they are placed")
        others = {row.pid for row in rows if row.pid is not None}
        if _apart(others):
            _compared(rows, "each on its own core")


def _compared(rows: list[Row], how: str) -> None:
    for row in rows:
        row.call()
    for _ in range(ROUNDS):
        for row in rows:
            row.round()
    told = f"(ms per request, {how})"
    print(f"\n{told:<52}{'best':>9}{'median':>9}{'p99':>9}{'CPU':>9}")
    for row in rows:
        print(row.shown(), flush=True)


def _apart(others: set[int]) -> bool:
    """This process on one core, the others on the rest; False where there is but one."""
    first, *rest = sorted(os.sched_getaffinity(0))
    for pid, cores in ((os.getpid(), [first]), *((pid, rest) for pid in others if rest)):
        for task in Path(f"/proc/{pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)
    return bool(rest)


def _rows(out: Path, until: ExitStack) -> Iterator[Row]:
    yield Row("bare function call", lambda: isolate.answer(1))
    pipe, pid = until.enter_context(_echo())
    yield Row("multiprocessing.Pipe, there and back", lambda: _there_and_back(pipe), pid)
    zygote = until.enter_context(Zygote())
    child = until.enter_context(zygote.spawn(isolate.plain))
    yield Row("watched child", lambda: child.call(1), child.pid)

    loaded = catalog.resolve_load(catalog.get("noop"), "text2audio", "cpu", {})
    from jumar.engine import load

    inline = until.enter_context(load("noop", backend="cpu"))
    served = Served(loaded, zygote=zygote)
    until.callback(served.close)
    assert served.states.wait(60).answers
    worker = next(one.pid for one in zygote._children if one.alive and one is not child)
    for what, prompt in (("", ""), (", one file made", "a")):
        yield Row(f"in this process{what}", lambda p=prompt: _inline(inline, p, out))  # type: ignore[misc]
        yield Row(
            f"queue and worker{what}",
            lambda p=prompt: served.answer(_visit(p, out)).result(),  # type: ignore[misc]
            worker,
        )


def _visit(prompt: str, out: Path) -> Visit:
    request = text2audio("noop", prompt, backend="cpu")
    return Visit(request, out=out, overwrite=True, listener=None, cancel=None)


def _inline(model: PlacedModel, prompt: str, out: Path) -> object:
    return model.generate(text2audio("noop", prompt, backend="cpu"), out=out, overwrite=True)


@contextmanager
def _echo() -> Iterator[tuple[Connection[Any, Any], int]]:
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=echo, args=(theirs,))
    process.start()
    assert process.pid is not None
    yield ours, process.pid
    ours.send(None)
    process.join()


def echo(pipe: Connection[Any, Any]) -> None:
    """Of the peer: send back what comes."""
    while (value := pipe.recv()) is not None:
        pipe.send(value)


def _there_and_back(pipe: Connection[Any, Any]) -> None:
    pipe.send(1)
    pipe.recv()

"""Pictures of several callers drawn together, beside one by one: `jumar serve` both times.

    python -m benchmarks drawing

CPU time is that of every process of the server (the worker too), not of the callers. The requests
of both servers are the same; how many of the files are not, by the rounding of a level, is told.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.serving import Process

from benchmarks.reading import Tree

MODEL = "sdxl-digits"
CALLERS, ROUNDS = 4, 8
WORDS = ("a red seven", "a blue two", "a green nine", "a yellow zero")

HEADER = (
    f"{f'drawing, {CALLERS} callers (ms per picture)':<44}{'together':>10}{'alone':>10}{'ratio':>9}"
)


@dataclass
class Side:
    """A server, and what its rounds cost: seconds of CPU and of the clock."""

    server: Process
    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)

    def round(self, number: int) -> list[str]:
        """All callers at once; the digests of their files."""
        tree = Tree(self.server.pid)
        cpu, begun = tree.cpu(), time.perf_counter()
        with ThreadPoolExecutor(CALLERS) as pool:
            files = list(pool.map(lambda caller: self.ask(number, caller), range(CALLERS)))
        self.cpu.append(tree.cpu() - cpu)
        self.wall.append(time.perf_counter() - begun)
        return files

    def ask(self, number: int, caller: int) -> str:
        """One picture; its digest."""
        body = {
            "model": MODEL,
            "inputs": {"prompt": WORDS[caller]},
            "config": {"seed": number * CALLERS + caller},
        }
        answer = self.server.client.post("/v1/generate", json=body)
        digest: str = answer.raise_for_status().json()["outputs"][0]["sha256"]
        return digest


def main() -> None:
    """Print CPU and wall time per picture, the ratio, and how many files differ."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as until:
        together, alone = (Side(_server(Path(folder), size, until)) for size in (CALLERS, 1))
        for side in (together, alone):
            side.ask(0, 0)  # loads it
            side.round(0)  # the first call of this shape is compared
            side.cpu.clear(), side.wall.clear()
        differ = 0
        for number in range(1, ROUNDS + 1):
            files = together.round(number), alone.round(number)
            differ += sum(a != b for a, b in zip(*files, strict=True))
    print(f"\n{HEADER}")
    for name, ours, theirs in (
        ("CPU", together.cpu, alone.cpu),
        ("wall", together.wall, alone.wall),
    ):
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
        a, b = (statistics.median(times) * 1e3 / CALLERS for times in (ours, theirs))
        print(f"{name:<44}{a:>10.1f}{b:>10.1f}{ratio:>9.3f}   {ROUNDS} pairs", flush=True)
    print(f"{differ} of {ROUNDS * CALLERS} files differ.")


def _server(folder: Path, size: int, until: ExitStack) -> Process:
    data = folder / str(size)
    data.mkdir()
    line = (MODEL, "--device", "cpu", "--max-batch-size", str(size), "--batch-window-ms", "50")
    server = Process(data, data, *line)
    until.callback(server.close)
    return server

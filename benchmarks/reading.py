"""Embeddings through `jumar serve`, beside the bare model in its best packed batches.

32 callers, each with one text after the other through a connection that stays open. CPU time is
that of every process of the server (the worker too), not of the callers; the bare model gets the
same texts sorted by length, in the batch size that is best for it. Then one caller alone, beside a
single forward, in blocks. In turn, in the same run. Texts are never repeated, so no cache answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support.serving import Process

MODEL = "all-minilm-l6-v2"
CALLERS, ROUNDS = 32, 3
BLOCKS = 5
"""Of one caller's requests, and of bare forwards. Not by turns: after a forward its threads spin on
for some 10 ms, and would take a core from the server that is asked next.
"""
SIZES = (8, 16, 32, 64)
LENGTHS: dict[str, tuple[int, Callable[[random.Random], int]]] = {
    "short (6 to 14 tokens)": (256, lambda draw: draw.randint(4, 12)),
    "mixed (6 to 240 tokens)": (96, lambda draw: round(2 ** draw.uniform(2, 7.9))),
}
"""Texts of a round, and how many words each has (one token a word, and two more)."""

_WORDS = ["rope", "wall", "hand", "ice", "snow", "rock", "wind", "night", "stone", "light", "foot"]
_TICK = os.sysconf("SC_CLK_TCK")
LIMIT, LIMIT_MS = 1.25, 1.5

Vectors = Callable[[Sequence[str], int], Any]


def main() -> None:
    """Print CPU per text and its ratio, then the median wait of one caller."""
    asyncio.run(_compared())


async def _compared() -> None:
    bare = _bare()
    with tempfile.TemporaryDirectory() as data:
        server = Process(Path(data), Path(data), MODEL, "--device", "cpu")
        try:
            await _beside(server, bare)
        finally:
            server.close()


async def _beside(server: Process, bare: Vectors) -> None:
    await _ready(server.url)
    print(f"\n{'reading (CPU ms per text)':<44}{'server':>10}{'bare':>10}{'ratio':>9}")
    for name, (count, length) in LENGTHS.items():
        await _many(name, server, bare, _texts(count, length))
    print(f"The ratio is to be at most {LIMIT:g}.")
    print(f"{'reading, one caller (ms)':<44}{'server':>10}{'bare':>10}{'over':>9}")
    for name, (_, length) in LENGTHS.items():
        await _alone(name, server, bare, _texts(40, length))
    print(f"It is to be at most {LIMIT_MS:g} ms over.")


async def _many(name: str, server: Process, bare: Vectors, texts: Callable[[], list[str]]) -> None:
    size = min(SIZES, key=lambda size: _cpu_of(lambda: bare(texts(), size)))
    tree, ours, theirs, seconds = Tree(server.pid), [], [], []
    for number in range(ROUNDS + 1):
        asked = texts()
        callers = [await Caller.open(server.url) for _ in range(CALLERS)]
        before, begun = tree.cpu(), time.perf_counter()
        await _spread(callers, asked)
        spent, took = tree.cpu() - before, time.perf_counter() - begun
        for caller in callers:
            caller.close()
        peer = _cpu_of(lambda asked=asked: bare(asked, size))  # type: ignore[misc]
        if number:
            ours.append(spent / len(asked) * 1e3)
            theirs.append(peer / len(asked) * 1e3)
            seconds.append(took / len(asked))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    a, b = statistics.median(ours), statistics.median(theirs)
    told = f"{ROUNDS} pairs, batches of {size}, {1 / statistics.median(seconds):.0f} texts/s"
    print(f"{name:<44}{a:>10.2f}{b:>10.2f}{ratio:>9.3f}   {told}", flush=True)


async def _alone(name: str, server: Process, bare: Vectors, texts: Callable[[], list[str]]) -> None:
    caller = await Caller.open(server.url)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(BLOCKS):
        for text in texts():
            begun = time.perf_counter()
            await caller.ask(text)
            ours.append((time.perf_counter() - begun) * 1e3)
        for text in texts():
            begun = time.perf_counter()
            bare([text], 1)
            theirs.append((time.perf_counter() - begun) * 1e3)
    caller.close()
    # On a busy machine the median is of its other work; the best is of this.
    for what, of in (("median", statistics.median), ("best", min)):
        a, b = of(ours), of(theirs)
        print(f"{f'{name}, {what}':<44}{a:>10.2f}{b:>10.2f}{a - b:>9.2f}", flush=True)


async def _spread(callers: list[Caller], texts: list[str]) -> None:
    left = iter(texts)

    async def one(caller: Caller) -> None:
        for text in left:
            await caller.ask(text)

    await asyncio.gather(*map(one, callers))


class Caller:
    """One connection, plain sockets: a client library takes longer than what is measured."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> Caller:
        host, _, port = url.removeprefix("http://").partition(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def ask(self, text: str) -> None:
        """A vector of one text."""
        body = json.dumps({"model": MODEL, "input": text, "encoding_format": "base64"}).encode()
        status, said = await self.send(b"POST /v1/embeddings", body)
        assert status == 200, said[:300]

    async def send(self, what: bytes, body: bytes = b"") -> tuple[int, bytes]:
        self._writer.write(
            b"%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%s" % (what, len(body), body)
        )
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(head.split()[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


class Tree:
    """A process and all that descend from it."""

    def __init__(self, root: int) -> None:
        self._root = root

    def cpu(self) -> float:
        """CPU seconds so far (proc(5): utime and stime of each, in ticks)."""
        parents, spent = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            pid = int(stat.parent.name)
            parents[pid], spent[pid] = int(fields[1]), int(fields[11]) + int(fields[12])
        return sum(spent[pid] for pid in spent if self._is_ours(pid, parents)) / _TICK

    def _is_ours(self, pid: int, parents: dict[int, int]) -> bool:
        while pid not in (0, self._root):
            pid = parents.get(pid, 0)
        return pid == self._root


async def _ready(url: str) -> None:
    caller = await Caller.open(url)
    while (await caller.send(b"GET /readyz"))[0] != 200:
        await asyncio.sleep(0.2)
    caller.close()


def _bare() -> Vectors:
    """The model as transformers has it: texts in order of their lengths, `size` at once."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    from jumar.catalog import get
    from jumar.runtime.weights import ensure_all

    files = ensure_all(get(MODEL))["model"]
    tokenizer = AutoTokenizer.from_pretrained(files)
    model = AutoModel.from_pretrained(files, dtype=torch.float32).eval()

    def vectors(texts: Sequence[str], size: int) -> None:
        ordered = sorted(texts, key=len)
        for start in range(0, len(ordered), size):
            tokens = tokenizer(
                ordered[start : start + size],
                padding=True, truncation=True, max_length=256, return_tensors="pt",
            )  # fmt: skip
            with torch.inference_mode():
                states = model(**tokens).last_hidden_state
                mask = tokens["attention_mask"][..., None].float()
                pooled = (states * mask).sum(1) / mask.sum(1)
                torch.nn.functional.normalize(pooled, dim=-1).numpy()

    return vectors


def _texts(count: int, length: Callable[[random.Random], int]) -> Callable[[], list[str]]:
    """New texts at each call."""
    draw = random.Random(1)
    return lambda: [" ".join(draw.choices(_WORDS, k=length(draw))) for _ in range(count)]


def _cpu_of(work: Callable[[], object]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun

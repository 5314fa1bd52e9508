"""From the SIGKILL of a worker to the next answer: a model that does nothing, and a real one.

    python -m benchmarks restart

One worker, so that nobody else can answer. Its goldens are asked before it answers again; what they
take is told apart. Peers: a process of `multiprocessing` (spawn, and forkserver with the same
imports preloaded) that loads the same model and answers once.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from multiprocessing.context import BaseContext
from pathlib import Path
from typing import Any

from benchmarks import noop
from jumar import catalog
from jumar.catalog.index import catalog as index
from jumar.contracts.requests import text2audio
from jumar.contracts.results import Parity
from jumar.engine import load
from jumar.engine.answering import Encoding
from jumar.engine.preloading import preloaded
from jumar.engine.served import Served
from jumar.engine.service import Model
from jumar.engine.visit import Visit
from jumar.isolate import Zygote
from jumar.server.proving import Prover

TIMES = 7
ENCODER = "all-minilm-l6-v2"


def main() -> None:
    """Print seconds: best and median."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        noop.install(Path(folder))
        sys.path.insert(0, folder)
        index.cache_clear()
        print(f"\n{'(s)':<52}{'best':>9}{'median':>9}{'goldens':>9}")
        out = Path(folder, "out")

        def visit() -> Visit:
            request = text2audio("noop", "", backend="cpu")
            return Visit(request, out=out, overwrite=True, listener=None, cancel=None)

        _ours("noop", "text2audio", lambda served: served.answer(visit()))
        texts = (f"rope number {number}" for number in itertools.count())  # none is remembered
        _ours(ENCODER, "embeddings", lambda served: served.encode(Encoding([next(texts)])))
        forkserver = multiprocessing.get_context("forkserver")
        forkserver.set_forkserver_preload(preloaded([ENCODER]))
        for name, context in (
            ("forkserver", forkserver),
            ("spawn", multiprocessing.get_context("spawn")),
        ):
            spent = [_peer(context) for _ in range(TIMES if name == "forkserver" else 3)]
            _row(f"peer, {name}: {ENCODER} loads, answers once", spent, [])


def _ours(model: str, task: str, ask: Callable[[Served], Any]) -> None:
    goldens: list[float] = []
    prover = Prover()

    def timed(one: Model) -> Parity:
        begun = time.perf_counter()
        found = prover(one)
        goldens.append(time.perf_counter() - begun)
        return found

    loaded = catalog.resolve_load(catalog.get(model), task, "cpu", {})
    with Zygote(preloaded([model])) as zygote:
        served = Served(loaded, prove=timed, zygote=zygote.start())
        served.states.wait()
        ask(served).result()
        spent = []
        for _ in range(TIMES):
            (pid,) = [child.pid for child in list(zygote._children) if child.alive]
            begun = time.perf_counter()
            os.kill(pid, signal.SIGKILL)
            ask(served).result()
            spent.append(time.perf_counter() - begun)
        served.close()
    _row(f"jumar: {model}, killed until it answers", spent, goldens[1:])


def _row(name: str, spent: list[float], goldens: list[float]) -> None:
    proof = f"{statistics.median(goldens):>9.3f}" if goldens else ""
    print(f"{name:<52}{min(spent):>9.3f}{statistics.median(spent):>9.3f}{proof}", flush=True)


def _peer(context: BaseContext) -> float:
    ours, theirs = context.Pipe()
    begun = time.perf_counter()
    process = context.Process(target=answer_once, args=(theirs,))  # type: ignore[attr-defined]
    process.start()
    ours.recv()
    spent = time.perf_counter() - begun
    process.join()
    return spent


def answer_once(pipe: Any) -> None:
    """Of the peer: the same model, the same text."""
    with load(ENCODER, backend="cpu") as model:
        pipe.send(model.encode(["a rope"]).shape)

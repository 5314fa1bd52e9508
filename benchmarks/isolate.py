"""What a watched child costs beside the standard library's processes, torch preloaded in all.

    python -m benchmarks isolate

Wall time, in turn with the peer, so that other work on the machine meets both. The peers watch
nothing: no output, no stacks, no heartbeat, no descendants.
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.context import BaseContext
from typing import Any

from benchmarks.measure import in_turn
from jumar.isolate import Child, Zygote

HEADER = f"\n{'(wall time, ms)':<44}{'jumar':>10}{'peer':>10}{'ratio':>9}"
MEGABYTE = bytes(1 << 20)


def answer(payload: Any) -> Any:
    """What every worker here does."""
    return payload


def worker() -> Callable[[Any], Any]:
    """Target of our children."""
    import torch  # noqa: F401

    return answer


def plain() -> Callable[[Any], Any]:
    """The same, without torch."""
    return answer


def served(pipe: Any) -> None:
    """Target of the peers' processes: say that we are there."""
    import torch  # noqa: F401

    pipe.send("ready")


def main() -> None:
    """Print the table."""
    print(HEADER)
    forkserver = multiprocessing.get_context("forkserver")
    forkserver.set_forkserver_preload(["torch"])
    spawn = multiprocessing.get_context("spawn")
    with Zygote(["torch"]) as zygote:
        zygote.start()
        _row("new child until it answers / forkserver", lambda: _new(zygote), _peer(forkserver), 15)
        _row("new child until it answers / spawn", lambda: _new(zygote), _peer(spawn), 3)
        with zygote.spawn(worker) as child, ProcessPoolExecutor(1, mp_context=spawn) as pool:
            child.ready()
            for name, payload, rounds in (
                ("call of an int / ProcessPoolExecutor", 1, 500),
                ("call of 1 MB / ProcessPoolExecutor", MEGABYTE, 20),
            ):
                _row(
                    name,
                    lambda p=payload, n=rounds: _calls(child, p, n),  # type: ignore[misc]
                    lambda p=payload, n=rounds: [pool.submit(answer, p).result() for _ in range(n)],
                    7,
                    rounds,
                )
            _alone(zygote, child)


def _alone(zygote: Zygote, child: Child) -> None:
    """Our own steps; best beside median shows how busy the machine was."""
    print(f"\n{'(wall time, ms)':<44}{'best':>10}{'median':>10}")
    children: list[Child] = []
    for name, step, times in (
        ("spawn", lambda: children.append(zygote.spawn(worker)), 20),
        ("ready after spawn", lambda: children[-20].ready(), 1),
        ("close of an idle child", lambda: children.pop().close(), 20),
        ("call", lambda: child.call(1), 2000),
    ):
        spent = []
        for _ in range(times):
            begun = time.perf_counter()
            step()
            spent.append((time.perf_counter() - begun) * 1e3)
        print(f"{name:<44}{min(spent):>10.3f}{statistics.median(spent):>10.3f}")


def _row(
    name: str, ours: Callable[[], object], peer: Callable[[], object], pairs: int, per: int = 1
) -> None:
    pair = in_turn(name, ours, peer, pairs=pairs, clock=time.perf_counter)
    mine, theirs = (statistics.median(side) * 1e3 / per for side in (pair.ours, pair.peer))
    print(f"{name:<44}{mine:>10.3f}{theirs:>10.3f}{pair.ratio:>9.3f}   {pairs} pairs")


def _new(zygote: Zygote) -> None:
    with zygote.spawn(worker) as child:
        child.ready().result()


def _peer(context: BaseContext) -> Callable[[], None]:
    def new() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=served, args=(theirs,))  # type: ignore[attr-defined]
        process.start()
        ours.recv()
        process.join()

    return new


def _calls(child: Child, payload: Any, rounds: int) -> None:
    for _ in range(rounds):
        child.call(payload).result()

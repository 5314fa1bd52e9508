"""Workers are killed, and callers never notice: nothing lost, nothing twice, nothing mixed up."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.serving import PATIENT, Running, serving

from jumar.engine.service import Service
from jumar.server.desk import Desk

REQUESTS, CALLERS, KILLS = 120, 8, 4


def ask(server: Running, number: int) -> str:
    """`right`, or the code of the error."""
    response = server.ask(f"number {number}", transport="inline_bytes")
    if response.status_code != 200:
        return str(response.json()["error"]["code"])
    (artifact,) = response.json()["outputs"]
    content = server.client.get(artifact["path"]).text
    return "right" if content == f"number {number}/0" else f"{number} got {content}"


def workers(desk: Desk) -> list[int]:
    """The processes that have the model now."""
    zygote = desk.house._zygote
    assert zygote is not None
    return [child.pid for child in list(zygote._children) if child.alive]


def test_callers_never_notice_that_workers_are_killed(tmp_path: Path) -> None:
    with serving(tmp_path, "toy", service=Service(workers=2)) as server:
        server.ready()
        killed: list[int] = []
        over = threading.Event()

        def kill() -> None:
            while len(killed) < KILLS and not over.wait(0.5):
                fresh = [pid for pid in workers(server.desk) if pid not in killed]
                if fresh:
                    os.kill(fresh[0], signal.SIGKILL)
                    killed.append(fresh[0])

        killer = threading.Thread(target=kill)
        killer.start()
        with ThreadPoolExecutor(CALLERS) as callers:
            asked = [callers.submit(ask, server, number) for number in range(REQUESTS)]
            while len(killed) < KILLS:  # work for as long as workers are killed
                asked.append(callers.submit(ask, server, len(asked)))
                asked[-1].result(PATIENT)
            ended = Counter(one.result(PATIENT) for one in asked)
        over.set()
        killer.join()
        assert len(killed) == KILLS
        assert set(ended) <= {"right", "run_failed", "not_ready"}, "typed, or right"
        assert ended["right"] >= 0.99 * len(asked), ended
        assert sum(served.pending for served in server.desk.house.models()) == 0

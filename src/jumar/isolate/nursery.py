"""Inside the zygote: do the imports, check that it can be forked, fork one guard per request."""

from __future__ import annotations

import fcntl
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import NoReturn

from jumar.isolate import guard, kernel, stacks
from jumar.isolate.frames import Channel, Kind
from jumar.isolate.messages import Preload, Ready
from jumar.isolate.outcomes import Failure


def main(sock: socket.socket, frames: int) -> None:
    """The life of a zygote."""
    stacks.write_on_request(frames)
    channel = Channel(sock)
    preload: Preload = channel.receive().value()
    with _ended_by_hang_up(sock):
        ready = _imported(preload)
    channel.send(Kind.READY, ready)
    if ready == Ready():
        _Nursery(sock, preload.owner).live()


@contextmanager
def _ended_by_hang_up(sock: socket.socket) -> Iterator[None]:
    """Let the kernel end us when the parent closes its end: while an import runs, nobody polls."""
    flags = fcntl.fcntl(sock, fcntl.F_GETFL)
    fcntl.fcntl(sock, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(sock, fcntl.F_SETFL, flags | os.O_ASYNC)  # SIGIO, whose default is to terminate
    yield
    fcntl.fcntl(sock, fcntl.F_SETFL, flags)


def _imported(preload: Preload) -> Ready:
    sys.path[:] = preload.path
    try:
        for module in preload.modules:
            import_module(module)
    except Exception as error:  # noqa: BLE001  (foreign code; the parent gets it whole)
        return Ready(failure=Failure.of(error))
    return Ready(unsafe=_unsafe())


def _unsafe() -> str:
    """Why a child forked from here would be broken: threads and devices do not survive a fork."""
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
        for fd in fds:
            os.set_inheritable(fd, False)  # received ones are not so by themselves
        sys.stdout.flush()
        sys.stderr.flush()
        with socket.socket(fileno=fds[0]) as control:
            try:
                process = os.fork()
            except OSError as error:  # no more processes, or memory
                Channel(control).send(Kind.RAISED, Failure.of(error))
            else:
                if not process:
                    self._become_guard(Channel(control), fds[1])
                self._guards.add(process)
        os.close(fds[1])
        return True

    def _become_guard(self, control: Channel, given: int) -> NoReturn:
        signal.set_wakeup_fd(-1)
        self._sock.close()
        for fd in (self._wake, self._wakes, self._owner):
            if fd is not None:
                os.close(fd)
        guard.main(control, given)

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

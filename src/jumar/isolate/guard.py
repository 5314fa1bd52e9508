"""The guard: the only parent of one child. It keeps the child's output, ends it, and tells how.

A process of its own, because it must outlive both others: when the parent is killed, it sees its
channel close and ends the child; when the child goes, it ends every descendant that the child left
(they become its own children, wherever they forked to); when the guard itself is killed, the kernel
kills the child. It has one thread, so forking from it is safe.
"""

from __future__ import annotations

import os
import select
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

from jumar.isolate import bodies, kernel, stacks
from jumar.isolate.frames import Channel, Kind, Lost
from jumar.isolate.messages import KILL_S, End, Job, Report
from jumar.isolate.outcomes import Failure, Output, Stacks

_LEFTOVERS_S = 1.0  # after SIGTERM; helpers that free shared memory need a moment
_CHUNK = 4096  # PIPE_BUF: what a writable pipe takes without blocking
_PROMPT_S = 1.0


def main(control: Channel, given: int) -> NoReturn:
    """The life of a guard. `given` is the child's end of its channel; of a command, its stdin."""
    code = 1
    try:
        Guard(control, given).live()
        code = 0
    except Lost:
        code = 0  # the parent went before the child was there
    except BaseException:  # noqa: BLE001  (the last frame of this process: it must not return)
        traceback.print_exc()
    finally:
        os._exit(code)


class Tail:
    """The last `keep` bytes of a stream."""

    def __init__(self, keep: int) -> None:
        self._keep, self._kept, self.dropped = keep, bytearray(), 0

    def add(self, data: bytes) -> None:
        """Take `data`, let go of what is too much."""
        self._kept += data
        if (excess := len(self._kept) - self._keep) > 0:
            del self._kept[:excess]
            self.dropped += excess

    def __bytes__(self) -> bytes:
        return bytes(self._kept)


class Guard:
    """State of the one child; `_turn` waits for whatever happens next and takes note of it."""

    def __init__(self, control: Channel, given: int) -> None:
        self._control = control
        self._given = given
        self._child = 0
        self._status: int | None = None
        self._childless = False
        self._end: End | None = None
        self._heard = time.monotonic()
        self._frames = stacks.nameless_file()
        self._poll = select.poll()
        self._on: dict[int, Callable[[int], None]] = {}

    def live(self) -> None:
        """Start the child, attend to it, end it, report."""
        job: Job = self._control.receive().value()
        kernel.adopt_orphans()
        kills = kernel.out_of_memory_kills()
        self._watch(job)
        try:
            self._start(job)
        except OSError as error:  # no more processes, memory or descriptors
            self._control.send(Kind.RAISED, Failure.of(error))
            return
        self._control.send(Kind.STARTED, (self._child, os.getpid()))
        while self._status is None and self._end is None:
            self._turn(None)
        report = self._finish(self._end or End(grace=_LEFTOVERS_S), kills)
        with suppress(Lost):  # the parent has gone: the child is gone too, there is nobody to tell
            self._control.send(Kind.REPORT, report)

    # -- starting

    def _watch(self, job: Job) -> None:
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # Ctrl-C is the parent's to answer
        stacks.ignore_requests()
        wake, self._wakes = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(self._wakes, False)
        signal.set_wakeup_fd(self._wakes, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._listen(wake, self._on_child)
        self._listen(self._control.fileno(), self._on_control)
        # A fork of the parent may hold the other end of our channel open, hence its end as well.
        if (owner := kernel.watch_for_end_of(job.owner)) is not None:
            self._listen(owner, self._on_owner)

    def _start(self, job: Job) -> None:
        self._tails = {1: Tail(job.keep), 2: Tail(job.keep)}
        self._echo = job.echo
        pipes = {target: os.pipe() for target in self._tails}
        guard = os.getpid()
        self._child = os.fork()
        if not self._child:
            bodies.become_child(
                guard, {target: pipe[1] for target, pipe in pipes.items()}, job.environ
            )
            for fd in [*self._on, self._wakes, *(end for pipe in pipes.values() for end in pipe)]:
                os.close(fd)
            bodies.run(job, self._given, self._frames)
        os.close(self._given)
        self._stream = {pipe[0]: target for target, pipe in pipes.items()}
        for reads, writes in pipes.values():
            os.close(writes)
            os.set_blocking(reads, False)
            self._listen(reads, self._on_output)
        self._python = job.body != "command"

    # -- attending

    def _listen(self, fd: int, on: Callable[[int], None]) -> None:
        self._on[fd] = on
        self._poll.register(fd, select.POLLIN)

    def _forget(self, fd: int) -> None:
        del self._on[fd]
        self._poll.unregister(fd)

    def _turn(self, until: float | None) -> None:
        left = None if until is None else max(0.0, until - time.monotonic()) * 1000
        for fd, _ in self._poll.poll(left):
            if on := self._on.get(fd):  # one before it in this turn may have read it to its end
                on(fd)

    def _on_child(self, wake: int) -> None:
        with suppress(BlockingIOError):
            os.read(wake, _CHUNK)
        self._reap()

    def _reap(self) -> None:
        """Collect whoever has ended. As the adopter of orphans, without children we are done."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self._child:
                    self._status = ended[1]
            return
        self._childless = True

    def _on_owner(self, owner: int) -> None:
        self._forget(owner)
        self._end = End()

    def _on_control(self, control: int) -> None:
        try:
            while self._control.ready(until=0):
                self._on_request()
        except Lost:
            self._forget(control)
            self._end = self._end or End()

    def _on_request(self) -> None:
        frame = self._control.receive()
        if frame.kind is Kind.END:
            self._end = frame.value()
        elif frame.kind is Kind.OUTPUT:
            self._drain()
            self._control.send(Kind.OUTPUT, self._output())
        elif frame.kind is Kind.BEAT:
            self._drain()
            self._control.send(Kind.BEAT, time.monotonic() - self._heard)

    def _on_output(self, reads: int) -> None:
        self._read(reads)

    def _read(self, reads: int) -> bool:
        """Take one chunk of output; False when there is none now, or never again."""
        try:
            data = os.read(reads, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self._forget(reads)
            os.close(reads)
            return False
        self._heard = time.monotonic()
        self._tails[self._stream[reads]].add(data)
        if self._echo:
            self._pass_on(self._stream[reads], data)
        return True

    def _pass_on(self, target: int, data: bytes) -> None:
        """Write to our own stdout or stderr; if it takes nothing for a while, the chunk is lost."""
        poll = select.poll()
        poll.register(target, select.POLLOUT)
        if poll.poll(_PROMPT_S * 1000):
            try:
                os.write(target, data)
            except BrokenPipeError:
                self._echo = False  # whoever looked has gone

    def _drain(self) -> None:
        for reads in [fd for fd, on in self._on.items() if on == self._on_output]:
            for _ in range(1 << 8):  # a child that writes all the time must not hold us here
                if not self._read(reads):
                    break

    def _output(self) -> Output:
        out, err = self._tails[1], self._tails[2]
        return Output(bytes(out), bytes(err), out.dropped, err.dropped)

    # -- ending

    def _finish(self, how: End, kills: int | None) -> Report:
        until = time.monotonic() + how.patience
        while self._status is None and time.monotonic() < until:
            self._turn(until)
        ended = self._status is None
        if ended and how.stacks:
            seen = stacks.dump(self._child, self._frames if self._python else None)
        else:
            seen = Stacks(stacks.written(self._frames))
        self._end_all(signal.SIGTERM, how.grace if ended else _LEFTOVERS_S)
        self._end_all(signal.SIGKILL, KILL_S)
        self._drain()
        return Report(
            self._status,
            ended,
            seen,
            self._output(),
            None if ended else self._lacked_memory(kills),
            () if self._childless else tuple(kernel.descendants(os.getpid())),
        )

    def _end_all(self, number: int, patience: float) -> None:
        """Signal every descendant once, those that appear meanwhile too, until none is left."""
        signalled: set[int] = set()
        until = time.monotonic() + patience
        self._reap()
        while not self._childless and time.monotonic() < until:
            for process in {*self._below()} - signalled:
                kernel.kill(process, number)
                signalled.add(process)
            self._turn(min(until, time.monotonic() + 0.05))
            self._reap()

    def _below(self) -> list[int]:
        if kernel.LINUX:
            return kernel.descendants(os.getpid())
        return [-self._child]  # its process group: all that can be reached elsewhere

    def _lacked_memory(self, before: int | None) -> bool | None:
        killed = self._status is not None and os.WIFSIGNALED(self._status)
        if not killed or os.WTERMSIG(self._status or 0) != signal.SIGKILL:
            return False
        after = kernel.out_of_memory_kills()
        return None if before is None or after is None else after > before

"""The parent's side of the zygote: started once, asked for children, renewed if it dies."""

from __future__ import annotations

import logging
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Any
from weakref import WeakSet

from jumar.contracts.errors import DependencyMissing, InvalidValue, RunFailed
from jumar.isolate import kernel, stacks
from jumar.isolate.child import Child
from jumar.isolate.frames import Buffer, Channel, Kind, Lost, dumped
from jumar.isolate.messages import Job, Preload, Ready
from jumar.isolate.outcomes import said
from jumar.isolate.watched import Parts, begun, existing, merged, our_process, started_anew

log = logging.getLogger(__name__)
_ELSEWHERE = "forking after imports is only known to be safe on Linux"


class Zygote:
    """A process with the heavy imports done, from which workers are forked.

    Args:
        preload: Modules to import. They must not open a device or leave threads running; where
            they do, and outside Linux, each child is started anew and imports them itself: `forks`
            is then False and `reason` says why.
        deadline: Seconds that the imports may take.

    It starts with the first `spawn`, or `start`. Any thread may spawn.
    """

    def __init__(self, preload: Sequence[str] = (), *, deadline: float = 600.0) -> None:
        self._preload = tuple(preload)
        self._deadline = deadline
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._children: WeakSet[Child] = WeakSet()
        self._closed = False
        self.reason = "" if kernel.LINUX else f"{_ELSEWHERE}, this is {sys.platform}"

    @property
    def forks(self) -> bool:
        """Whether children are forked (True until found otherwise)."""
        return not self.reason

    @property
    def pid(self) -> int | None:
        """The zygote's process, while there is one."""
        return self._process.pid if self._process else None

    def start(self) -> Zygote:
        """Do the imports now and wait for them.

        Raises:
            DependencyMissing: A module of `preload` is not installed.
            RunFailed: Importing one raised, crashed, or took longer than `deadline`.
        """
        with self._lock:
            self._start()
        return self

    def spawn(
        self,
        target: Callable[..., Callable[[Any], Any]],
        *arguments: Any,
        env: Mapping[str, str | None] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        keep: int = 1 << 16,
        echo: bool = False,
    ) -> Child:
        """A new child; does not wait until it is ready.

        Args:
            target: A module-level function, called in the child with `arguments`; it makes the
                worker and returns the function that answers calls.
            env: Put over this process's present environment; None takes a name away.
            cwd: The child's working folder.
            keep: How many bytes of the end of its stdout, and of stderr, are kept.
            echo: Also pass its output on to ours.

        Raises:
            InvalidValue: `target` or `arguments` cannot be handed to another process, or there is
                no such folder.
            DependencyMissing, RunFailed: As `start`.
        """
        order = _order(target, arguments)
        job = Job("fork", os.getpid(), merged(env), existing(cwd), keep=keep, echo=echo)
        ours, theirs = socket.socketpair()
        channel = Channel(ours)
        try:
            with theirs:
                parts = self._forked(job, theirs) or self._anew(job, theirs, channel)
        except BaseException:
            channel.close()
            raise
        child = Child(parts, channel, order)
        self._children.add(child)
        return child

    def close(self) -> None:
        """End all its children, then itself."""
        self._closed = True
        if children := list(self._children):
            with ThreadPoolExecutor(len(children)) as together:
                list(together.map(Child.close, children))
        with self._lock:
            self._stop()

    def __enter__(self) -> Zygote:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _forked(self, job: Job, given: socket.socket) -> Parts | None:
        """A guard forked by the zygote; None where children cannot be forked."""
        for attempt in (1, 2):
            with self._lock:
                if (zygote := self._start()) is None:
                    return None
                ours, theirs = socket.socketpair()
                control = Channel(ours)
                with theirs:
                    try:
                        socket.send_fds(zygote, [b"1"], [theirs.fileno(), given.fileno()])
                    except OSError as error:
                        log.debug("the zygote does not take a request: %s", error)
            try:
                return control, begun(control, job), None
            except (Lost, TimeoutError) as error:
                control.close()
                if attempt == 2:
                    raise RunFailed("The zygote has died twice while it forked a child.") from error
                log.warning("The zygote (process %s) has died; starting a new one.", self.pid)
                with self._lock:
                    if self._sock is zygote:
                        self._stop()
        raise AssertionError

    def _anew(self, job: Job, given: socket.socket, channel: Channel) -> Parts:
        """A guard and a child in new interpreters; the child does the imports itself."""
        parts = started_anew(replace(job, body="anew"), given.fileno())
        channel.send(Kind.PRELOAD, (sys.path, self._preload))
        return parts

    def _start(self) -> socket.socket | None:
        """The zygote's socket, of a new one if need be; None where children cannot be forked."""
        if self._closed:
            raise RunFailed("This zygote has been closed.")
        if self.reason or self._sock is not None:
            return self._sock
        self._sock, theirs = socket.socketpair()
        frames = stacks.nameless_file()
        try:
            with theirs:
                self._process = our_process("zygote", theirs.fileno(), frames)
            ready = self._imported(Channel(self._sock), self._process, frames)
        except BaseException:
            self._stop(patience=0)
            raise
        finally:
            os.close(frames)
        if ready.unsafe:
            self.reason = ready.unsafe
            log.warning("Children of this zygote are started anew: %s.", self.reason)
            self._stop()
        return self._sock

    def _imported(self, channel: Channel, process: subprocess.Popen[bytes], frames: int) -> Ready:
        """Let it do the imports."""
        what = ", ".join(self._preload)
        try:
            channel.send(Kind.PRELOAD, Preload(os.getpid(), tuple(sys.path), self._preload))
            ready: Ready = channel.receive(time.monotonic() + self._deadline).value()
        except TimeoutError:
            stood = stacks.dump(process.pid, frames)
            raise RunFailed(
                f"Importing {what} was not done after {self._deadline:g} s."
            ) from Stood(stood.python or stood.native or stood.reason)
        except Lost:
            code = process.wait()
            how = f"was killed by {said(-code)}" if code < 0 else f"ended with exit code {code}"
            raise RunFailed(f"The process that imports {what} {how}.") from Stood(
                stacks.written(frames)
            )
        if ready.failure is not None:
            missing = ready.failure.type == "ModuleNotFoundError"
            kind = DependencyMissing if missing else RunFailed
            raise kind(f"Importing {what} failed: {ready.failure.message}") from (
                ready.failure.error()
            )
        return ready

    def _stop(self, patience: float = 10.0) -> None:
        if self._sock is not None:
            Channel(self._sock).close()
            self._sock = None
        if self._process is not None:
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


class Stood(Exception):
    """Cause of an import that crashed or hung: the frames of that moment."""


def _order(target: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Buffer]:
    if getattr(target, "__module__", None) == "__main__":
        raise InvalidValue(
            f"{target!r} is defined in the script that runs; a child cannot import it from there.",
            hint="Move it into a module.",
            param="target",
        )
    try:
        return dumped((target, arguments))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise InvalidValue(
            f"{target!r} with these arguments cannot be handed to another process: {error}",
            hint="The target must be a function of a module, the arguments plain data.",
            param="target",
        ) from error

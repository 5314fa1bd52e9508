"""The parent's side of a guard: what `Child` and `Command` share."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Optional, TypeVar

from jumar.contracts.errors import DeadlineExceeded, InvalidValue, RunFailed
from jumar.isolate import kernel
from jumar.isolate.frames import Channel, Frame, Kind, Lost
from jumar.isolate.messages import KILL_S, End, Job, Report
from jumar.isolate.outcomes import Died, Hung, Output, said

Parts = tuple[Channel, Frame, Optional["subprocess.Popen[bytes]"]]
"""Of a `Watched`: the channel to its guard, the guard's first frame, the guard if it is ours."""

_SELF = TypeVar("_SELF", bound="Watched")
_START_S = 60.0
_REPORT_S = 60.0  # beyond all that the guard was told to wait for: it may be short of CPU
_LOST_S = 1.0  # a channel closes a moment before its process is gone


class Watch:
    """A time limit for the whole and one between two signs of progress; None is no limit.

    `until` is when the next of them passes, as of `time.monotonic`; None: none ever does.
    """

    def __init__(self, deadline: float | None, heartbeat: float | None) -> None:
        if deadline is not None and deadline <= 0:
            raise DeadlineExceeded("The deadline passed before the call began.")
        self.progress: tuple[int, int | None] | None = None
        self._deadline, self._heartbeat = deadline, heartbeat
        self._end = None if deadline is None else time.monotonic() + deadline
        self.beat()

    def beat(self, ago: float = 0.0) -> None:
        """There was a sign of progress `ago` seconds ago."""
        if self._heartbeat is None:
            self.until = self._end
            return
        silent = time.monotonic() - ago + self._heartbeat
        self.until = silent if self._end is None else min(silent, self._end)

    def check(self) -> None:
        """Raise TimeoutError where a limit has passed: what comes all the time never waits."""
        if self.until is not None and self.until < time.monotonic():
            raise TimeoutError

    def hung(self, report: Report) -> Hung:
        """The outcome of the limit that has passed."""
        name = "deadline" if self.until == self._end else "heartbeat"
        seconds = self._deadline if name == "deadline" else self._heartbeat
        return Hung(name, seconds or 0.0, self.progress, report.stacks, report.output, report.left)


class Watched:
    """A process under a guard. Close it, or use it in ``with``; forgetting to ends it as well."""

    pid: int

    def __init__(self, parts: Parts) -> None:
        self._control, started, self._process = parts
        self.pid, self._guard = started.value()
        self._report: Report | None = None
        self._asking = threading.RLock()

    @property
    def alive(self) -> bool:
        """Whether its end has not been seen yet."""
        return self._report is None

    def output(self) -> Output:
        """What it has written so far: the end of it."""
        with self._asking:
            answer = self._asked(Kind.OUTPUT)
            if answer is not None:
                output: Output = answer.value()
                return output
            return self._ended().output

    def close(self, grace: float = 1.0) -> None:
        """End it and everything that it started: SIGTERM, `grace` seconds, SIGKILL."""
        self._ended(End(grace=grace))

    def __enter__(self: _SELF) -> _SELF:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _asked(self, kind: Kind) -> Frame | None:
        """The guard's answer; None when the child has ended."""
        with self._asking:
            if self._report is not None:
                return None
            try:
                self._control.send(kind)
            except Lost:
                return None  # the report lies ready to be read, or the guard was killed
            return self._awaited(kind, time.monotonic() + _REPORT_S)

    def _awaited(self, kind: Kind, until: float) -> Frame | None:
        """The next frame of this kind; a report, or the guard's own end, settles everything."""
        while self._report is None:
            try:
                frame = self._control.receive(until)
            except Lost:
                self._settle(Report())
            except TimeoutError:
                kernel.kill(self._guard, signal.SIGKILL)  # the kernel then kills the child
                self._settle(Report(ended=True))
            else:
                if frame.kind is Kind.REPORT:
                    self._settle(frame.value())
                elif frame.kind is kind:
                    return frame
        return None

    def _ended(self, how: End | None = None) -> Report:
        """End it as told, if it still lives, and say how it ended."""
        how = how or End(patience=_LOST_S)
        with self._asking:
            if self._report is None:
                with suppress(Lost):  # its report lies ready to be read, or the guard was killed
                    self._control.send(Kind.END, how)
                waits = how.patience + how.grace + KILL_S + _REPORT_S
                self._awaited(Kind.REPORT, time.monotonic() + waits)
            assert self._report is not None
            return self._report

    def _settle(self, report: Report) -> None:
        self._report = report
        self._control.close()
        if self._process is not None:
            self._process.wait()


def died(report: Report, otherwise: str) -> Died:
    """The outcome of a report; `otherwise` is why we ended it, where it had not ended itself."""
    number, code, status = None, None, report.status
    if report.ended:
        reason = otherwise
    elif status is None:
        reason = "Its guard was killed, and it with it."
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        reason = f"It was killed by {said(number)}."
        if report.out_of_memory:
            reason = f"It was killed by {said(number)}, most likely because memory ran out."
    else:
        code = os.WEXITSTATUS(status)
        reason = f"It ended with exit code {code}."
    return Died(
        reason, number, code, report.stacks, report.output, report.out_of_memory, report.left
    )


def begun(control: Channel, job: Job) -> Frame:
    """Hand the job to a guard and wait until its child is there.

    Raises:
        Lost, TimeoutError: There is no guard.
        RunFailed: The machine has no room for another process.
    """
    control.send(Kind.JOB, job)
    frame = control.receive(time.monotonic() + _START_S)
    if frame.kind is Kind.RAISED:
        raise RunFailed("A child could not be started.") from frame.value().error()
    return frame


def started_anew(job: Job, given: int) -> Parts:
    """Start a guard of its own for this job, in a new interpreter without site-packages."""
    ours, theirs = socket.socketpair()
    with theirs:
        process = our_process("guard", theirs.fileno(), given, flags=("-I", "-S"))
    control = Channel(ours)
    try:
        return control, begun(control, job), process
    except (Lost, TimeoutError) as error:
        control.close()
        process.kill()
        code = process.wait()
        raise RunFailed(f"A guard process could not be started (exit code {code}).") from error


def our_process(role: str, *fds: int, flags: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start `__main__` in this role, in a session of its own: Ctrl-C is ours alone to answer."""
    argv = [sys.executable, *flags, str(Path(__file__).parent), role, *map(str, fds)]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, pass_fds=fds, start_new_session=True)


def existing(cwd: str | os.PathLike[str] | None) -> str:
    """The folder to work in; ours, where none is named."""
    folder = Path(cwd or ".").absolute()
    if not folder.is_dir():
        raise InvalidValue(f"There is no folder {folder}.", param="cwd")
    return str(folder)


def merged(env: Mapping[str, str | None] | None) -> dict[str, str]:
    """Our environment as it is now, with `env` put over it; a value of None takes the name away."""
    whole = {**os.environ, **(env or {})}
    return {name: value for name, value in whole.items() if value is not None}

"""In the freshly forked child, before and while it is what the guard was asked for."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from jumar.isolate import kernel, stacks, worker
from jumar.isolate.frames import Channel
from jumar.isolate.messages import Job


def become_child(guard: int, streams: Mapping[int, int], environ: Mapping[str, str]) -> None:
    """An own session, own output, default signals, the environment of the parent."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    kernel.die_with(guard)
    kernel.may_be_traced_by(guard)
    kernel.prefer_as_out_of_memory_victim()
    for target, pipe in streams.items():
        os.dup2(pipe, target)
    os.environ.clear()
    os.environ.update(environ)


def run(job: Job, given: int, frames: int) -> NoReturn:
    """Be the worker or the command; never returns to the guard's code."""
    code = 1
    try:
        os.chdir(job.cwd)
        BODIES[job.body](job, given, frames)
        code = 0
    except SystemExit as exit_:
        code = exit_.code if isinstance(exit_.code, int) else int(exit_.code is not None)
    except BaseException:  # noqa: BLE001  (the last frame of this process: its stderr is kept)
        traceback.print_exc()
    finally:
        with suppress(OSError, ValueError):  # the worker closed them, or nobody reads them
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)  # the exit handlers belong to the zygote


def _fork(_job: Job, given: int, frames: int) -> None:
    import socket

    signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as in any Python: a closed pipe is an exception
    with open(os.devnull) as nothing:  # noqa: PTH123
        os.dup2(nothing.fileno(), 0)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    if numpy_random := sys.modules.get("numpy.random"):
        numpy_random.seed()  # else all children of one zygote would draw the same numbers
    stacks.write_on_request(frames)
    worker.serve(Channel(socket.socket(fileno=given)))


def _anew(_job: Job, given: int, frames: int) -> None:
    for fd in (given, frames):
        os.set_inheritable(fd, True)
    here = str(Path(__file__).parent)
    os.execv(sys.executable, [sys.executable, "-u", here, "worker", str(given), str(frames)])


def _command(job: Job, given: int, _frames: int) -> None:
    os.dup2(given, 0)
    try:
        os.execvp(job.argv[0], job.argv)
    except OSError as error:
        sys.stderr.write(f"{job.argv[0]}: {error.strerror}\n")
        sys.exit(127 if isinstance(error, FileNotFoundError) else 126)


BODIES: dict[str, Callable[[Job, int, int], None]] = {
    "fork": _fork,
    "anew": _anew,
    "command": _command,
}

"""Where a process stands: Python's frames by faulthandler, native ones by py-spy.

faulthandler writes from a C signal handler, so it also answers while C code holds the GIL. It needs
a file that is open beforehand; that file has no name, so nothing is left behind.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jumar.isolate import kernel
from jumar.isolate.outcomes import Stacks

ASK = signal.SIGUSR2  # the signal on which a child writes its frames
_PYTHON_S = 2.0  # a stopped process does not answer at all
_NATIVE_S = 20.0  # the first look into libtorch takes some seconds
_MOST = 1 << 18
_OURS = (f'File "{Path(__file__).parent}', 'File "<frozen runpy>"')


def nameless_file() -> int:
    """A descriptor of an empty file without a name."""
    if kernel.LINUX:
        return os.memfd_create("jumar-stacks")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write_on_request(file: int) -> None:
    """In the child: frames of all threads into `file` on `ASK`, and at a crash."""
    faulthandler.enable(file, all_threads=True)
    faulthandler.register(ASK, file, all_threads=True, chain=False)


def ignore_requests() -> None:
    """In a guard, forked from a zygote that listens: neither write nor end at a stray `ASK`."""
    faulthandler.unregister(ASK)
    signal.signal(ASK, signal.SIG_IGN)


def written(file: int) -> str:
    """What is in `file`: the frames of a crash, or of the last request, less those of our own."""
    lines = os.pread(file, _MOST, 0).decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(_OURS))


def dump(process: int, file: int | None) -> Stacks:
    """Both kinds of a living process; `file` is None where it is not one of our Python children.

    The native ones first: the signal that asks for Python's interrupts a sleeping system call, and
    C code may return from it.
    """
    native, reason = _native(process)
    python = _asked(process, file) if file is not None else ""
    return Stacks(python, native, reason)


def _asked(process: int, file: int) -> str:
    kernel.kill(process, ASK)
    size, until = 0, time.monotonic() + _PYTHON_S
    while time.monotonic() < until:
        time.sleep(0.02)
        before, size = size, os.fstat(file).st_size
        if size and size == before:
            break
    return written(file)


def _native(process: int) -> tuple[str, str]:
    program = _py_spy()
    if program is None:
        return "", "py-spy is not installed: pip install py-spy"
    native = ["--native"] if kernel.LINUX else []
    try:
        done = subprocess.run(
            [program, "dump", *native, "--pid", str(process)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_NATIVE_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"py-spy was not done after {_NATIVE_S:g} s"
    except OSError as error:
        return "", f"py-spy cannot be run: {error}"
    if done.returncode:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        return "", f"py-spy: {' '.join(line.strip() for line in lines[-3:])}"
    return done.stdout.decode("utf-8", "replace"), ""


def _py_spy() -> str | None:
    """Beside the interpreter (a virtual environment that is not activated), else on the path."""
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")

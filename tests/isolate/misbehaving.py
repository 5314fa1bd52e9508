"""Workers that do what they should not: targets for `Zygote.spawn`, each named for its answer."""

from __future__ import annotations

import ctypes
import os
import random
import re
import resource
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jumar.contracts.errors import InvalidValue
from jumar.isolate import progress, tell

Answer = Callable[[Any], Any]
FOR_EVER = 10_000


def obeying() -> Answer:
    """Payload is (name of a function below, arguments…)."""
    return lambda order: globals()[order[0]](*order[1:])


def refusing(text: str) -> Answer:
    """A worker that cannot be made."""
    raise InvalidValue(text, hint="Choose another.", param="model")


def counting() -> Answer:
    """A worker with a state: how many calls it has had."""
    calls: list[Any] = []
    return lambda payload: calls.append(payload) or len(calls)


def no_worker() -> Any:
    """A target that returns no function."""
    return 7


def echo(value: Any) -> Any:
    return value


def pid() -> int:
    return os.getpid()


def environment(name: str) -> str | None:
    return os.environ.get(name)


def folder() -> str:
    return str(Path.cwd())


def drawn() -> float:
    return random.random()


def drawn_by_numpy() -> float:
    import numpy

    return float(numpy.random.random())


def imported(module: str) -> bool:
    return module in sys.modules


# -- dying


def segfault() -> None:
    ctypes.string_at(0)


def abort() -> None:
    os.abort()


def leave(code: int) -> None:
    os._exit(code)


def sys_exit(code: int) -> None:
    sys.exit(code)


def close_every_descriptor() -> None:
    os.closerange(3, 1024)
    time.sleep(FOR_EVER)


def scribble_on_every_descriptor() -> None:
    for fd in range(3, 64):
        try:
            socket.socket(fileno=os.dup(fd)).send(b"\xff" * 64)
        except OSError:
            continue
    time.sleep(FOR_EVER)


def kill_the_guard() -> None:
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(FOR_EVER)


def say_and_die(text: str) -> None:
    sys.stderr.write(text + "\n")
    os.kill(os.getpid(), signal.SIGKILL)


# -- hanging


def loop_in_python() -> None:
    where_it_loops()


def where_it_loops() -> None:
    while True:
        pass


def hold_the_gil() -> None:
    re.match(r"(a+)+$", "a" * 64 + "b")


def sleep_without_the_gil() -> None:
    ctypes.CDLL(None).sleep(FOR_EVER)


def sleep_with_the_gil() -> None:
    ctypes.PyDLL(None).sleep(FOR_EVER)


def stop_oneself() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def ignore_sigterm() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(FOR_EVER)


def progress_then_hang(steps: int) -> None:
    for step in range(steps):
        progress(step + 1, steps * 2)
    time.sleep(FOR_EVER)


def heartbeat_of_another_thread() -> None:
    """What hides a hang elsewhere: a thread that lives while the work stands still."""
    threading.Thread(target=time.sleep, args=(FOR_EVER,), daemon=True).start()
    time.sleep(FOR_EVER)


def progress_until_cancelled(started: str) -> None:
    for step in range(FOR_EVER * 100):
        progress(step)
        Path(started).touch()
        time.sleep(0.01)


def progress_all_the_time() -> None:
    while True:
        progress(1)


def tell_all_with_the_answer(values: list[Any]) -> str:
    for value in values:
        tell(value, at_once=False)
    return "done"


def tell_all(values: list[Any]) -> str:
    for value in values:
        tell(value)
    return "done"


def tell_for(seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        tell("still here")
        time.sleep(0.02)
    return "done"


def tell_a_lock() -> None:
    tell(threading.Lock())


def progress_for(seconds: float) -> str:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        progress(1, 2)
        time.sleep(0.02)
    return "done"


# -- giving too much, or nothing that can be sent


def hog_memory() -> int:
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + (64 << 20), resource.RLIM_INFINITY))
    return len(bytearray(1 << 32))


def write(count: int, text: str) -> None:
    for _ in range(count):
        sys.stdout.write(text)
    sys.stdout.flush()


def print_line(text: str) -> None:
    print(text)


def zeros(count: int) -> bytes:
    return bytes(count)


def unpicklable() -> Any:
    return threading.Lock()


class OnlyThere:
    """Can be pickled, and not read again."""

    def __reduce__(self) -> Any:
        return (_unreadable, ())


def _unreadable() -> None:
    raise OSError("this is only there in the child")


def only_there() -> Any:
    return OnlyThere()


class Awkward(Exception):
    """Cannot be pickled, takes two arguments, and cannot be shown."""

    def __init__(self, lock: Any, _other: int) -> None:
        super().__init__(lock)

    def __str__(self) -> str:
        raise RuntimeError("no text")


def raise_awkward() -> None:
    raise Awkward(threading.Lock(), 1)


def raise_plain() -> None:
    raise ValueError("no such voice") from KeyError("fenrir")


def raise_jumar_error() -> None:
    try:
        raise OSError("disk full")
    except OSError as error:
        raise InvalidValue("steps must be at most 50.", hint="Use 50.", param="steps") from error


# -- leaving others behind


def fork_sleeper(*, own_session: bool = True) -> int:
    """A grandchild that leaves its session and closes everything: nothing of ours ties it to us."""
    reads, writes = os.pipe()
    if not os.fork():
        if own_session:
            os.setsid()
        if (grandchild := os.fork()) == 0:
            os.closerange(0, 1024)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(FOR_EVER)
        os.write(writes, str(grandchild).encode())
        os._exit(0)
    os.wait()
    return int(os.read(reads, 20))


def fork_sleeper_and_die() -> None:
    print(fork_sleeper(), flush=True)
    os.abort()


def fork_sleeper_and_kill_the_guard() -> None:
    print(fork_sleeper(), flush=True)
    Path(os.environ["NOTE"]).write_text(str(fork_sleeper()))
    kill_the_guard()


# -- looking around


def descriptors() -> list[str]:
    listed = (f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd"))
    return sorted(os.readlink(path) for path in listed if os.path.lexists(path))


def summed(count: int) -> float:
    import torch

    return float(torch.ones(count, 8).matmul(torch.ones(8, 1)).sum()) / 8

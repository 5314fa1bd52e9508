"""What the kernel does for us: all of it on Linux; elsewhere each function says what is lost.

All calls are by `ctypes` into the running libc and safe in a freshly forked single-threaded child.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
PROC = Path("/proc")
DEVICE_NODES = ("/dev/davinci", "/dev/hisi_hdc", "/dev/devmm_svm", "/dev/nvidia")

# linux/prctl.h
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_PTRACER = 0x59616D61


def _prctl(option: int, value: int) -> None:
    if LINUX:
        import ctypes

        # The result is not looked at: an old kernel, or one without Yama, answers EINVAL.
        ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0)


def die_with(parent: int) -> None:
    """Be killed when the parent's thread ends (Linux): only for single-threaded parents."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own (Linux), so that none gets away."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def may_be_traced_by(process: int) -> None:
    """Let `process` and its children read our stacks where Yama allows only ancestors to."""
    _prctl(_PR_SET_PTRACER, process)


def prefer_as_out_of_memory_victim() -> None:
    """Let the kernel choose this process before the server that waits for it."""
    if LINUX:
        score = PROC / "self/oom_score_adj"
        with suppress(OSError):  # raising one's own needs no rights, but /proc may be read-only
            score.write_text(str(min(1000, int(score.read_text()) + 500)))


def watch_for_end_of(process: int) -> int | None:
    """A descriptor that becomes readable when `process` ends, however; None where there is none."""
    try:
        return os.pidfd_open(process) if LINUX else None
    except ProcessLookupError:
        raise
    except OSError:  # before Linux 5.3, or forbidden: the end of its socket must do
        return None


def descendants(of: int) -> list[int]:
    """Every process below `of`, zombies left out (Linux; else none: the process group must do)."""
    below: dict[int, list[int]] = {}
    for folder in PROC.iterdir() if LINUX else ():
        if folder.name.isdigit() and (stat := _stat(folder)) and stat[0] != "Z":
            below.setdefault(int(stat[1]), []).append(int(folder.name))
    found = list(below.get(of, ()))
    for process in found:
        found += below.get(process, ())
    return found


def _stat(folder: Path) -> list[str] | None:
    """State, parent and so on: what follows the name, which may itself hold blanks and brackets."""
    try:
        return (folder / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # it ended while we looked
        return None


def kill(process: int, number: int, *, group: bool = False) -> None:
    """Send a signal; a process that has ended already is fine."""
    try:
        (os.killpg if group else os.kill)(process, number)
    except ProcessLookupError:
        return
    except PermissionError:  # macOS says so of a group of zombies
        if LINUX:
            raise


def own_threads() -> list[str]:
    """The names of this process's threads besides the main one (Linux)."""
    if not LINUX:
        return []
    tasks = (PROC / "self/task").iterdir()
    return [(task / "comm").read_text().strip() for task in tasks if task.name != str(os.getpid())]


def own_devices() -> list[str]:
    """The accelerators' device nodes that this process has open (Linux)."""
    if not LINUX:
        return []
    opened = [os.path.realpath(fd) for fd in (PROC / "self/fd").iterdir()]
    return sorted({path for path in opened if path.startswith(DEVICE_NODES)})


def out_of_memory_kills(proc: Path = PROC, groups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """How often the kernel killed for lack of memory: in our control group, else on the machine."""
    for file in [*_counters(proc, groups), proc / "vmstat"]:
        try:
            lines = [line.split() for line in file.read_text().splitlines()]
        except OSError:
            continue  # not mounted here; the next one counts more widely
        for name, count in (line for line in lines if len(line) == 2):
            if name == "oom_kill":
                return int(count)
    return None


def _counters(proc: Path, groups: Path) -> list[Path]:
    """The files of our own control group, version 2 and version 1, that may hold the counter."""
    try:
        lines = (proc / "self/cgroup").read_text().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:
            found.append(groups / path.strip("/") / "memory.events")
        elif "memory" in controllers.split(","):
            found.append(groups / "memory" / path.strip("/") / "memory.oom_control")
    return found

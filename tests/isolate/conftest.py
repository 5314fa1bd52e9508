"""One zygote for all tests of a process, and ways to see what is left of a process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.isolate import misbehaving

from jumar.isolate import Child, Zygote

PATIENT = 60.0  # a limit that no test should reach, on however slow a machine


@pytest.fixture(scope="session")
def zygote() -> Iterator[Zygote]:
    with Zygote() as zygote:
        yield zygote


@pytest.fixture
def child(zygote: Zygote) -> Iterator[Child]:
    with zygote.spawn(misbehaving.obeying) as child:
        yield child


def is_alive(process: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def children_of(process: int) -> list[int]:
    """Its children, zombies too."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == process:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def eventually(holds: Callable[[], object], patience: float = PATIENT) -> bool:
    """Whether it becomes true; waits as long as needed, and no longer."""
    until = time.monotonic() + patience
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))

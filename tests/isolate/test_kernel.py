"""What is read from the kernel, from files as it writes them."""

from __future__ import annotations

import os
from pathlib import Path

from jumar.isolate import kernel
from tests.isolate.conftest import is_alive


def test_out_of_memory_kills_are_those_of_the_own_control_group(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text("0::/pods/a\n")
    (proc / "vmstat").write_text("nr_free_pages 12\noom_kill 40\n")
    assert kernel.out_of_memory_kills(proc, groups) == 40
    (groups / "pods/a").mkdir(parents=True)
    (groups / "pods/a/memory.events").write_text("low 0\nmax 3\noom 2\noom_kill 2\n")
    assert kernel.out_of_memory_kills(proc, groups) == 2


def test_control_groups_of_version_1_are_read_too(tmp_path: Path) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text("4:memory:/a\n3:cpuset:/\n0::/\n")
    (groups / "memory/a").mkdir(parents=True)
    (groups / "memory/a/memory.oom_control").write_text("under_oom 0\noom_kill 5\n")
    assert kernel.out_of_memory_kills(proc, groups) == 5


def test_where_no_counter_is_visible_nothing_is_known(tmp_path: Path) -> None:
    assert kernel.out_of_memory_kills(tmp_path, tmp_path) is None


def test_descendants_are_found_at_any_depth_and_zombies_are_none() -> None:
    reads, writes = os.pipe()
    if not (child := os.fork()):
        grandchild = os.fork()
        os.read(reads, 1)
        os._exit(0 if grandchild else 0)
    while len(found := kernel.descendants(os.getpid())) < 2 or child not in found:
        continue
    below = kernel.descendants(child)
    assert len(below) == 1 and is_alive(below[0])
    os.write(writes, b"12")
    while is_alive(child):
        continue
    assert child not in kernel.descendants(os.getpid())
    os.waitpid(child, 0)
    os.close(reads)
    os.close(writes)

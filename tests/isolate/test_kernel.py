"""What is read from the kernel, from files as it writes them."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from tests.isolate.conftest import eventually, is_alive

from jumar.isolate import kernel


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
    with subprocess.Popen(["sh", "-c", "(sleep 1000; true) & wait"]) as shell:
        assert eventually(lambda: len(kernel.descendants(shell.pid)) == 2)
        below = kernel.descendants(shell.pid)
        assert {shell.pid, *below} <= set(kernel.descendants(os.getpid()))
        for process in [shell.pid, *below]:
            os.kill(process, signal.SIGKILL)
        assert eventually(lambda: not is_alive(shell.pid))
        assert shell.pid not in kernel.descendants(os.getpid())

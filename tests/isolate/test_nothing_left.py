"""When a child ends, however, nothing of it is left: process, descendant, descriptor or file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.isolate import misbehaving
from tests.isolate.conftest import (
    PATIENT,
    children_of,
    eventually,
    is_alive,
    open_descriptors,
    parent_of,
)

from jumar.isolate import Child, Died, Hung, Zygote, run

PARENT = """
import sys, time
from jumar.isolate import Zygote
from tests.isolate import misbehaving

with Zygote() as zygote:
    child = zygote.spawn(misbehaving.obeying)
    sleeper = child.call(("fork_sleeper",)).result()
    print(zygote.pid, child._guard, child.pid, sleeper, flush=True)
    {then}
"""


def test_fifty_children_in_turn_leave_no_descriptor_and_no_process(zygote: Zygote) -> None:
    endings = [("echo", 1), ("leave", 3), ("abort",), ("raise_plain",), ("segfault",)]

    def one(order: tuple[object, ...]) -> None:
        with zygote.spawn(misbehaving.obeying) as child:
            child.call(order, deadline=PATIENT)

    one(endings[0])
    ours, theirs = open_descriptors(), len(os.listdir(f"/proc/{zygote.pid}/fd"))
    for number in range(50):
        one(endings[number % len(endings)])
    assert zygote.pid
    assert open_descriptors() == ours
    assert eventually(lambda: not children_of(zygote.pid or 0))
    assert len(os.listdir(f"/proc/{zygote.pid}/fd")) == theirs


def test_a_child_holds_only_its_own_descriptors(zygote: Zygote) -> None:
    """A descriptor of a neighbour would keep the neighbour's channel open beyond its end."""
    with zygote.spawn(misbehaving.obeying) as one, zygote.spawn(misbehaving.obeying) as two:
        held = [set(c.call(("descriptors",), deadline=PATIENT).result()) for c in (one, two)]
    sockets = [{path for path in paths if path.startswith("socket")} for paths in held]
    pipes = [{path for path in paths if path.startswith("pipe")} for paths in held]
    assert len(sockets[0]) == len(sockets[1]) == 1 and sockets[0] != sockets[1]
    assert len(pipes[0]) == len(pipes[1]) == 2 and not pipes[0] & pipes[1]


def test_a_grandchild_in_its_own_session_goes_with_a_child_that_crashes(child: Child) -> None:
    outcome = child.call(("fork_sleeper_and_die",), deadline=PATIENT)
    assert isinstance(outcome, Died) and outcome.signal == signal.SIGABRT
    assert not is_alive(int(outcome.output.stdout))
    assert outcome.left == ()


def test_a_grandchild_goes_with_a_child_that_hangs(child: Child) -> None:
    sleeper = child.call(("fork_sleeper",), deadline=PATIENT).result()
    assert is_alive(sleeper)
    assert isinstance(child.call(("ignore_sigterm",), deadline=0.2), Hung)
    assert not is_alive(sleeper)


def test_a_grandchild_goes_with_a_child_that_is_closed(child: Child) -> None:
    sleeper = child.call(("fork_sleeper",), deadline=PATIENT).result()
    child.close()
    assert not is_alive(sleeper)


def test_a_grandchild_goes_even_where_the_guard_is_killed(zygote: Zygote, tmp_path: Path) -> None:
    note = tmp_path / "note"
    with zygote.spawn(misbehaving.obeying, env={"NOTE": str(note)}) as child:
        outcome = child.call(("fork_sleeper_and_kill_the_guard",), deadline=PATIENT)
    assert isinstance(outcome, Died)
    sleeper = int(note.read_text())
    assert eventually(lambda: not is_alive(sleeper))


def test_a_child_that_is_forgotten_ends(zygote: Zygote) -> None:
    child = zygote.spawn(misbehaving.obeying)
    pid = child.call(("pid",), deadline=PATIENT).result()
    del child
    assert eventually(lambda: not is_alive(pid))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_everything_ends_with_the_parent(number: signal.Signals) -> None:
    with _parent("time.sleep(1000)") as parent:
        processes = _told(parent)
        assert all(is_alive(process) for process in processes)
        parent.send_signal(number)
        parent.wait(PATIENT)
        assert eventually(lambda: not any(is_alive(process) for process in processes))


def test_ctrl_c_in_the_middle_of_a_call_ends_everything() -> None:
    with _parent("child.call(('loop_in_python',))") as parent:
        processes = _told(parent)
        parent.send_signal(signal.SIGINT)
        parent.wait(PATIENT)
        assert parent.returncode == -signal.SIGINT
        assert not any(is_alive(process) for process in processes)


def test_a_zygote_in_the_middle_of_an_import_ends_with_the_parent(tmp_path: Path) -> None:
    note = tmp_path / "note"
    (tmp_path / "endless.py").write_text(
        f"import os, time\nopen({str(note)!r}, 'w').write(str(os.getpid()))\ntime.sleep(1000)"
    )
    code = f"import sys; sys.path.append({str(tmp_path)!r}); import jumar.isolate as i; "
    with subprocess.Popen([sys.executable, "-c", code + "i.Zygote(['endless']).start()"]) as parent:
        assert eventually(lambda: note.exists() and note.read_text())
        parent.kill()
    assert eventually(lambda: not is_alive(int(note.read_text())))


def test_everything_ends_with_a_parent_whose_fork_still_holds_the_channel() -> None:
    with _parent("import os; os.fork() or time.sleep(1000); time.sleep(1000)") as parent:
        zygote, *processes = _told(parent)
        assert eventually(lambda: len(children_of(parent.pid)) == 2)
        (fork,) = set(children_of(parent.pid)) - {zygote}
        parent.kill()
        parent.wait(PATIENT)
        assert eventually(lambda: not any(is_alive(p) for p in (zygote, *processes)))
        os.kill(fork, signal.SIGKILL)


def test_children_outlive_a_zygote_that_is_killed_and_a_new_one_takes_over() -> None:
    with Zygote() as zygote, zygote.spawn(misbehaving.obeying) as old:
        old.ready(deadline=PATIENT)
        first = zygote.pid
        assert first
        os.kill(first, signal.SIGKILL)
        with zygote.spawn(misbehaving.obeying) as new:
            assert new.call(("echo", 1), deadline=PATIENT).result() == 1
        assert zygote.pid != first
        assert old.call(("echo", 2), deadline=PATIENT).result() == 2
        pid = old.pid
        assert parent_of(pid) == old._guard
    assert not is_alive(pid)


def test_a_closed_zygote_leaves_neither_process_nor_descriptor_nor_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    before, children = open_descriptors(), set(children_of(os.getpid()))
    with Zygote() as zygote:
        for _ in range(3):
            zygote.spawn(misbehaving.obeying).call(("echo", 1), deadline=PATIENT)
        run([sys.executable, "-c", "pass"], deadline=PATIENT)
    assert open_descriptors() == before
    assert set(children_of(os.getpid())) <= children
    assert list(tmp_path.iterdir()) == []


def _parent(then: str) -> subprocess.Popen[str]:
    code = PARENT.format(then=then)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def _told(parent: subprocess.Popen[str]) -> list[int]:
    assert parent.stdout
    return [int(word) for word in parent.stdout.readline().split()]

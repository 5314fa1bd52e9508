"""The zygote: imports once, forks fast, is renewed, and says where it cannot fork."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tests.isolate import misbehaving
from tests.isolate.conftest import PATIENT, is_alive

from jumar.contracts.errors import DependencyMissing, InvalidValue, RunFailed
from jumar.isolate import Child, Died, Hung, Returned, Zygote
from jumar.isolate.nursery import _unsafe

THREAD = """
import threading, time
threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module whose file a test then writes."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return "preloaded_here"


def test_children_have_the_preloaded_modules_and_this_process_has_not(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text("import os; AT = os.getpid()")
    with Zygote([module]) as zygote, zygote.spawn(misbehaving.obeying) as child:
        assert child.call(("imported", module), deadline=PATIENT) == Returned(True)
        assert zygote.forks and zygote.reason == ""
    assert module not in sys.modules


def test_children_have_the_environment_and_folder_of_the_moment(
    zygote: Zygote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zygote.start()
    monkeypatch.setenv("SET_LATER", "1")
    monkeypatch.setenv("TAKEN_AWAY", "1")
    env = {"ASCEND_RT_VISIBLE_DEVICES": "3", "TAKEN_AWAY": None}
    with zygote.spawn(misbehaving.obeying, env=env, cwd=tmp_path) as child:
        names = ("SET_LATER", "ASCEND_RT_VISIBLE_DEVICES", "TAKEN_AWAY")
        seen = [child.call(("environment", name), deadline=PATIENT).result() for name in names]
        assert seen == ["1", "3", None]
        assert child.call(("folder",), deadline=PATIENT).result() == str(tmp_path)


def test_children_draw_different_random_numbers(zygote: Zygote) -> None:
    with zygote.spawn(misbehaving.obeying) as one, zygote.spawn(misbehaving.obeying) as two:
        assert one.call(("drawn",)).result() != two.call(("drawn",)).result()


def test_imports_that_leave_threads_running_are_not_forked_and_that_is_said(
    tmp_path: Path, module: str
) -> None:
    (tmp_path / f"{module}.py").write_text(THREAD)
    with Zygote([module]) as zygote, zygote.spawn(misbehaving.obeying) as child:
        assert not zygote.forks and zygote.pid is None
        assert "started threads that a fork would lose" in zygote.reason
        assert child.call(("imported", module), deadline=PATIENT) == Returned(True)
        assert child.call(("echo", 5), deadline=PATIENT) == Returned(5)


def test_imports_that_open_a_device_are_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    from jumar.isolate import kernel

    monkeypatch.setattr(kernel, "own_threads", list)
    monkeypatch.setattr(kernel, "DEVICE_NODES", ("/dev/zer",))
    assert _unsafe() == ""
    with open("/dev/zero"):
        assert _unsafe() == "its imports opened a device (/dev/zero)"


@pytest.fixture
def unforked() -> Zygote:
    """One that starts each child anew, as on macOS."""
    zygote = Zygote()
    zygote.reason = "as on macOS"
    return zygote


def test_children_started_anew_behave_alike(unforked: Zygote, tmp_path: Path) -> None:
    with unforked as zygote:
        assert zygote.spawn(misbehaving.obeying).call(("echo", 1)) == Returned(1)
        died = zygote.spawn(misbehaving.obeying).call(("segfault",), deadline=PATIENT)
        assert isinstance(died, Died) and "in segfault" in died.stacks.python
        child = zygote.spawn(misbehaving.obeying, env={"HERE": "1"}, cwd=tmp_path)
        assert child.call(("environment", "HERE")).result() == "1"
        assert child.call(("folder",)).result() == str(tmp_path)
        sleeper = child.call(("fork_sleeper",)).result()
        hung = child.call(("sleep_with_the_gil",), deadline=0.3)
        assert isinstance(hung, Hung) and "in sleep_with_the_gil" in hung.stacks.python
        assert not is_alive(sleeper)
        assert zygote.pid is None


def test_a_module_that_is_not_installed_is_named() -> None:
    with pytest.raises(DependencyMissing, match="no_such_module_at_all"):
        Zygote(["no_such_module_at_all"]).start()


def test_a_module_that_crashes_is_an_error_not_a_hang(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("import os; os.abort()")
    with pytest.raises(RunFailed, match=f"imports {module} was killed by SIGABRT") as raised:
        Zygote([module]).start()
    assert f"{module}.py" in (raised.value.cause or "")  # where it stood


def test_a_module_that_hangs_is_an_error(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("import time\ndef stuck(): time.sleep(1000)\nstuck()")
    zygote = Zygote([module], deadline=1.0)
    with pytest.raises(RunFailed, match=r"not done after 1 s") as raised:
        zygote.start()
    assert "in stuck" in (raised.value.cause or "")
    assert zygote.pid is None


def test_a_target_that_a_child_could_not_import_is_refused(zygote: Zygote) -> None:
    with pytest.raises(InvalidValue) as raised:
        zygote.spawn(lambda: print)
    assert raised.value.param == "target" and "function of a module" in (raised.value.hint or "")


def test_a_folder_that_is_not_there_is_refused(zygote: Zygote, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="no folder"):
        zygote.spawn(misbehaving.obeying, cwd=tmp_path / "nowhere")


def test_a_closed_zygote_spawns_no_more(child: Child) -> None:
    zygote = Zygote()
    zygote.close()
    with pytest.raises(RunFailed, match="has been closed"):
        zygote.spawn(misbehaving.obeying)
    assert child.call(("pid",), deadline=PATIENT).result() not in (os.getpid(), zygote.pid)


def test_torch_can_be_preloaded_and_computes_in_several_children() -> None:
    pytest.importorskip("torch")
    with Zygote(["torch"]) as zygote:
        zygote.start()
        assert zygote.forks, zygote.reason
        for _ in range(2):
            with zygote.spawn(misbehaving.obeying) as child:
                assert child.call(("summed", 100_000), deadline=PATIENT).result() == 100_000.0


def test_children_draw_different_numbers_from_a_preloaded_numpy() -> None:
    pytest.importorskip("numpy")
    with Zygote(["numpy.random"]) as zygote:
        children = [zygote.spawn(misbehaving.obeying) for _ in range(2)]
        one, two = (c.call(("drawn_by_numpy",), deadline=PATIENT).result() for c in children)
    assert one != two

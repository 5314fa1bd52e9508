"""The machine at hand: programs, files, sockets and open files as they really are."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

import pytest
from tests.host.recorded import SAMPLES

from jumar.host import live, read_host
from jumar.host.live import LiveSource

SOURCE = LiveSource()


def program(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a shell script first on PATH."""
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_cards_of_a_program_on_path_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SAMPLES / "npu-smi-info__910B3__25.5.1__engine-process.txt"
    script = f'[ "$*" = info ] && cat "{sample}" || {{ echo "Error parameter of $2" >&2; exit 3; }}'
    program(tmp_path, "npu-smi", script, monkeypatch)
    facts = read_host(SOURCE)
    assert [card.npu_id for card in facts.cards] == [0, 5]
    assert facts.unseen["npu_smi.mapping"] == "Error parameter of -m"


def test_what_a_program_prints_on_stderr_is_read_with_its_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "npu-smi", "echo dcmi; echo 'ret is -8020' >&2; exit 255", monkeypatch)
    ran = SOURCE.run("npu-smi", "info")
    assert (ran.text, ran.exit_code) == ("dcmi\nret is -8020\n", 255)


def test_a_program_that_hangs_is_something_that_could_not_be_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "npu-smi", "exec sleep 60", monkeypatch)
    monkeypatch.setattr(live, "RUN_SECONDS", 0.2)
    facts = read_host(SOURCE, deep=False)
    assert facts.npu_smi.present is None
    assert facts.unseen["npu_smi"] == "npu-smi info: no answer in 0.2 s"


def test_a_missing_program_is_a_fact() -> None:
    with pytest.raises(FileNotFoundError):
        SOURCE.run("no-such-program-anywhere")


def test_a_link_is_told_with_its_target_and_a_dangling_one_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o640)
    (tmp_path / "good").symlink_to("file")
    (tmp_path / "bad").symlink_to("nowhere")
    good, bad = SOURCE.stat(f"{tmp_path}/good"), SOURCE.stat(f"{tmp_path}/bad")
    assert (good.kind, good.target, good.mode, good.uid) == ("file", "file", 0o640, os.getuid())
    assert (bad.kind, bad.target, bad.exists) == ("missing", "nowhere", False)
    assert SOURCE.stat("/dev/null").kind == "char"


def test_a_listening_socket_is_seen_with_its_reach() -> None:
    with socket.socket() as near, socket.socket() as far:
        near.bind(("127.0.0.1", 0))
        far.bind(("0.0.0.0", 0))
        near.listen()
        far.listen()
        ports = {port.port: port.loopback for port in SOURCE.listeners()}
        assert ports[near.getsockname()[1]] is True
        assert ports[far.getsockname()[1]] is False


@pytest.mark.skipif(sys.byteorder != "little", reason="the kernel's words are in machine order")
@pytest.mark.parametrize(
    ("address", "loopback"),
    [
        ("0100007F", True),
        ("00000000", False),
        ("00000000000000000000000001000000", True),
        ("0000000000000000FFFF00000100007F", True),
        ("00000000000000000000000000000000", False),
    ],
)
def test_kernel_addresses_are_read_word_by_word(address: str, loopback: bool) -> None:
    assert live._loopback(address) is loopback


def test_a_process_that_has_a_node_open_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "davinci0"
    monkeypatch.setattr(live, "HELD_NODES", re.compile(re.escape(str(node))))
    with node.open("w"):
        held = SOURCE.holders()
    assert [holder.pid for holder in held[str(node)]] == [os.getpid()]


def test_packages_are_named_as_they_are_looked_for() -> None:
    packages = live.installed_packages()
    assert packages["pytest"][0] == pytest.__version__
    assert all(name == name.lower() and "_" not in name for name in packages)


def test_a_package_that_is_installed_meanwhile_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "jumar-surely-absent" not in live.installed_packages()
    info = tmp_path / "jumar_surely_absent-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: jumar_surely.absent\nVersion: 1.2\n"
    )
    assert live.installed_packages()["jumar-surely-absent"] == ["1.2", str(tmp_path)]

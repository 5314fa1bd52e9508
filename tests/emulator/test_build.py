"""The core is built once, and an error shows the compiler's own words."""

from __future__ import annotations

import shutil
import threading

import pytest

from jumar.contracts.errors import DependencyMissing
from jumar.emulator import build


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """A compiler that copies a line into its output and counts its calls."""
    pytest.importorskip("torch")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    script = tmp_path / "fake-cxx"
    calls = tmp_path / "calls"
    script.write_text(
        "#!/bin/sh\n"
        f"echo called >> {calls}\n"
        "sleep 0.3\n"
        'if [ -n "$FAIL" ]; then echo "emulator.cpp:3: error: $FAIL" >&2; exit 1; fi\n'
        'while [ "$1" != "-o" ]; do shift; done\n'
        'echo library > "$2"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    return calls


def test_parallel_builds_call_the_compiler_once(fake):
    built = []
    threads = [threading.Thread(target=lambda: built.append(build.library())) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(set(built)) == 1 and built[0].read_text() == "library\n"
    assert fake.read_text() == "called\n"
    assert build.library() == built[0] and fake.read_text() == "called\n"


def test_a_changed_source_is_another_library(fake, tmp_path, monkeypatch):
    first = build.library()
    copy = tmp_path / "csrc"
    shutil.copytree(build.SOURCES, copy)
    (copy / "noise.h").write_text("// changed\n")
    monkeypatch.setattr(build, "SOURCES", copy)
    assert build.library() != first


def test_a_failed_build_shows_the_compilers_words_and_leaves_nothing(fake, monkeypatch):
    monkeypatch.setenv("FAIL", "no member named 'DeviceAllocator'")
    with pytest.raises(DependencyMissing, match="no member named 'DeviceAllocator'"):
        build.library()
    left = [one.name for one in build._cache().iterdir()]
    assert left == ["build.lock"]


def test_without_a_compiler_it_says_which_one_to_install(fake, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(DependencyMissing) as caught:
        build.library()
    assert "g++" in str(caught.value.hint)

"""The worker: what it measures, and what it does not."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from jumar.vllm.memory import Memory

needs_vllm = pytest.mark.skipif(not find_spec("vllm"), reason="vLLM is not installed")

ONE_PATH = """
def available(measured: bool) -> int:
    if measured:
        result = 3
    return result
"""
"""As vllm-plugin-FL's worker met it (its pull request 387): NameError on the path that measures
nothing, and a wrong budget where it is mended without care."""


def worker(memory: Memory, profile_run):
    from jumar.vllm.worker import JumarWorker

    one = object.__new__(JumarWorker)
    one.memory = memory
    one.model_runner = SimpleNamespace(profile_run=profile_run)
    one.gauge = SimpleNamespace(begin=lambda: None, peak=lambda: 300)
    return one


@needs_vllm
def test_named_bytes_are_given_without_a_profile_run():
    def profile_run() -> None:
        raise AssertionError("nothing has to be measured")

    assert worker(Memory(1000, 1000), profile_run).determine_available_memory() == 1000


@needs_vllm
def test_without_named_bytes_one_profile_run_is_measured():
    runs = []
    left = worker(Memory(1000, None), lambda: runs.append(1)).determine_available_memory()
    assert left == 700 and runs == [1]


def test_lint_tells_a_name_that_only_some_paths_of_the_platform_define(tmp_path, monkeypatch):
    """`make lint` holds all of `jumar.vllm` to it; this is the fault itself."""
    api = pytest.importorskip("mypy.api")
    module = tmp_path / "jumar" / "vllm" / "one_path.py"
    module.parent.mkdir(parents=True)
    module.write_text(ONE_PATH)
    monkeypatch.setenv("MYPYPATH", str(tmp_path))
    config = Path(__file__).parents[2] / "pyproject.toml"
    said, _, _ = api.run(
        ["--config-file", str(config), "--cache-dir", str(tmp_path / "cache"), str(module)]
    )
    assert 'Name "result" may be undefined' in said

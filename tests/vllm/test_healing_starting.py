"""Specifications of an engine that never was ready: what no restart changes is not tried again."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("httpx")


def lived(program: str, **options: Any) -> tuple[Any, list[Any]]:
    """A server of an engine that is this Python program, when it is over; the cases looked into."""
    from jumar.vllm.healing.healing import Healing, Options

    cases: list[Any] = []

    def look(case: Any, *, answers_wrong: bool) -> Any:
        cases.append(case)
        return [], ""

    healing = Healing(
        Options(flags=["m"], device="cpu", **options),
        program=(sys.executable, "-c", program),
        look=look,
    )
    asyncio.run(asyncio.wait_for(healing.run(), 60))
    return healing, cases


def test_options_that_mean_nothing_are_not_looked_into(caplog: pytest.LogCaptureFixture) -> None:
    usage = "import argparse; argparse.ArgumentParser('vllm').parse_args(['--max-model-lenn'])"
    with caplog.at_level(logging.ERROR):
        healing, cases = lived(usage)
    assert (healing.state, healing.starts, cases) == ("failed", 1, [])
    assert "unrecognized arguments: --max-model-lenn" in healing.reason
    assert f"It gives up: {healing.reason}" in caplog.text


def test_an_engine_that_cannot_start_and_where_nobody_is_guilty_is_not_started_again() -> None:
    healing, cases = lived("raise SystemExit('Mamba is not served.')", restarts=3)
    assert (healing.state, healing.starts, len(cases)) == ("failed", 1, 1)
    assert "Mamba is not served. No operator was found guilty" in healing.reason


def test_an_engine_that_is_looked_into_is_one_process_whatever_the_server_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vllm = pytest.importorskip("vllm")
    from jumar.vllm.healing import program

    given: dict[str, Any] = {}
    config = SimpleNamespace(model_config=SimpleNamespace(runner_type="generate"))

    def llm(**options: Any) -> Any:
        given.update(options)
        return SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config))

    monkeypatch.setattr(vllm, "LLM", llm)
    for name in ("VLLM_ENABLE_V1_MULTIPROCESSING", program.SHADOW, program.STATE):
        monkeypatch.setenv(name, os.environ.get(name, "0"))
    ranks = {f"{kind}_parallel_size": 1 for kind in ("tensor", "pipeline", "data")}
    flags = [text for name in ranks for text in (f"--{name.replace('_', '-')}", "2")]
    program.engine([str(tmp_path), *flags], [])
    assert given["model"] == str(tmp_path)
    assert {name: given[name] for name in ranks} == ranks

"""Specifications of the options that `vllm serve` takes from Jumar."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from jumar.lab.golden.base import Golden
from jumar.lab.golden.files import write
from jumar.vllm.healing.goldens import GOLDEN
from jumar.vllm.healing.steps import SHADOW
from jumar.vllm.options import extend


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> argparse.ArgumentParser:
    """A parser of a server, as far as is looked at; the environment is as before afterwards."""
    for name in (GOLDEN, SHADOW):
        monkeypatch.setenv(name, "")
    made = argparse.ArgumentParser(prog="vllm serve")
    made.add_argument("--middleware", action="append", default=[])
    made.add_argument("--grpc", action="store_true")
    made.add_argument("--headless", action="store_true")
    made.add_argument("--api-server-count", type=int)
    extend(made)
    return made


def test_they_are_written_where_every_process_of_the_engine_reads_them(
    parser: argparse.ArgumentParser, tmp_path: Path
) -> None:
    import os

    write(Golden("m", "", "text", (), ()), tmp_path)
    parser.parse_args(["--jumar-golden", str(tmp_path), "--jumar-shadow", "7"])
    assert (os.environ[GOLDEN], os.environ[SHADOW]) == (str(tmp_path), "7")


@pytest.mark.parametrize(
    ("option", "value", "because"),
    [
        ("--jumar-golden", "/nowhere", "is no golden set"),
        ("--jumar-shadow", "-1", "'-1' is no whole number from 0 on"),
        ("--jumar-shadow", "often", "'often' is no whole number from 0 on"),
    ],
)
def test_what_means_nothing_is_said_as_vllm_says_it_before_anything_is_loaded(
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    because: str,
) -> None:
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([option, value])
    assert ended.value.code == 2
    assert f"argument {option}: " in (said := capsys.readouterr().err)
    assert because in said


@pytest.mark.parametrize("golden_first", [True, False])
@pytest.mark.parametrize("other", [["--grpc"], ["--headless"], ["--api-server-count", "0"]])
def test_golden_answers_that_nobody_would_ask_are_refused(
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    other: list[str],
    golden_first: bool,
) -> None:
    parser.parse_args(other)  # the control
    write(Golden("m", "", "text", (), ()), tmp_path)
    golden = ["--jumar-golden", str(tmp_path)]
    with pytest.raises(SystemExit) as ended:
        parser.parse_args([*golden, *other] if golden_first else [*other, *golden])
    assert ended.value.code == 2
    assert f"--jumar-golden is not for {' '.join(other)}: " in capsys.readouterr().err


def test_golden_answers_that_a_frontend_in_rust_would_not_ask_are_refused(
    parser: argparse.ArgumentParser,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    write(Golden("m", "", "text", (), ()), tmp_path)
    parser.parse_args(["--jumar-golden", str(tmp_path)])  # the control
    monkeypatch.setenv("VLLM_USE_RUST_FRONTEND", "1")
    with pytest.raises(SystemExit):
        parser.parse_args(["--jumar-golden", str(tmp_path)])
    assert "is not for VLLM_USE_RUST_FRONTEND" in capsys.readouterr().err


def test_vllm_itself_refuses_golden_answers_over_grpc_before_it_loads_anything(
    tmp_path: Path,
) -> None:
    pytest.importorskip("vllm")
    write(Golden("m", "", "text", (), ()), tmp_path)
    asked = ["serve", str(tmp_path), "--grpc", "--jumar-golden", str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "vllm.entrypoints.cli.main", *asked],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 2, done.stderr[-2000:]
    assert "error: --jumar-golden is not for --grpc: " in done.stderr


def test_a_parser_of_something_else_is_left_alone() -> None:
    other = argparse.ArgumentParser()
    before = other.format_help()
    extend(other)
    assert other.format_help() == before

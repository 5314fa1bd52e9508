"""`jumar validate`: what will run and where each value comes from, or all that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Shell


def test_each_value_stands_with_its_origin(run: Shell) -> None:
    line = "validate --model sdxl-digits --prompt red --preset fast --seed 3"
    assert run(*line.split()).code == 0
    rows = [line.split(maxsplit=3) for line in run.out.splitlines()[1:]]
    assert ["inputs", "prompt", "red", "caller"] in rows
    assert ["config", "seed", "3", "caller"] in rows
    assert ["config", "num_inference_steps", "6", "model preset fast"] in rows
    assert ["config", "scheduler", "native", "default"] in rows


def test_keys_that_nobody_set_are_named(run: Shell) -> None:
    out = run("validate", "--model", "toy", "--prompt", "x").out
    assert out.splitlines()[-1].startswith("not set: ")
    assert "seed" in out.splitlines()[-1]


def test_all_problems_are_told_at_once(run: Shell) -> None:
    line = "validate --model hibari --speed 99 --seed -4 --response-format bmp"
    assert run(*line.split()).code == 2
    told = [line for line in run.err.splitlines() if line.startswith("error[")]
    assert len(told) == 4
    for name in ("speed", "seed", "response_format", "prompt"):
        assert any(name in line for line in told), name


def test_problems_as_json(run: Shell) -> None:
    assert run("validate", "--model", "toy", "--speed", "99", "--json").code == 2
    assert run.json["ok"] is False
    assert {error["param"] for error in run.json["errors"]} == {"config.speed", "inputs.prompt"}


def test_an_input_that_the_model_cannot_read_is_a_problem(run: Shell) -> None:
    assert run("validate", "--model", "toy", "--prompt", "unreadable").code == 2
    assert run.err == "error[invalid_input]: This prompt is unreadable.\n"


def test_a_device_that_is_not_here_is_a_problem(run: Shell) -> None:
    assert run("validate", "--model", "toy", "--prompt", "x", "--device", "npu:7").code == 3
    assert run.err.startswith("error[device_unavailable]: npu:7 cannot be used here")


def test_no_weights_are_touched(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUMAR_CACHE", str(tmp_path / "cache"))
    assert run("validate", "--model", "hibari", "--prompt", "x").code == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("prompt", ["🧗 爬绳", "x" * 10_000, "<b>\n\tbold</b>", "'; rm -rf ~"])
def test_any_prompt_is_one_line_of_the_table(prompt: str, run: Shell) -> None:
    assert run("validate", "--model", "toy", "--prompt", prompt).code == 0
    (row,) = [line for line in run.out.splitlines() if line.startswith("  inputs")]
    assert row.endswith("caller")
    assert len(row) < 140

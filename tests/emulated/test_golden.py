"""Golden answers on an emulated card: its own references, and what faults do to them."""

from __future__ import annotations

import pytest
import yaml
from click.testing import CliRunner

from jumar.cli.app import jumar

pytestmark = pytest.mark.models

REQUESTS = [
    {"name": "short", "inputs": {"texts": ["A cat sat on the mat."]}, "covers": ["short"]},
    {
        "name": "padded",
        "inputs": {"texts": ["A cat sat on the mat.", "rope " * 60]},
        "covers": ["padded"],
        "same_as": {"vector.0": "short/vector.0"},
    },
]


@pytest.fixture(scope="module")
def goldens(tmp_path_factory):
    """A folder in which somebody recorded the CPU and the emulated card, with two requests."""
    folder = tmp_path_factory.mktemp("goldens")
    own = folder / "requests.yaml"
    own.write_text(yaml.safe_dump(REQUESTS))
    done = golden("record", folder, "--requests", str(own))
    assert done.exit_code == 0, done.output
    assert "within its rounding of cpu fp32" in done.stderr
    return folder


def golden(verb, folder, *more):
    line = ["golden", verb, "all-minilm-l6-v2", "--device", "npu:0", "--goldens", str(folder)]
    return CliRunner().invoke(jumar, [*line, "--compile", "off", *more])


def test_what_was_recorded_here_matches_here(goldens):
    done = golden("verify", goldens)
    assert done.exit_code == 0, done.output
    assert "matched: all-minilm-l6-v2 on npu-emulated fp32 on Ascend910B1 (emulated): 3 of 3" in (
        done.stdout
    )
    assert "Covered: short, padded." in done.stdout


def test_the_guilty_operator_is_named_and_in_quarantine(goldens, tmp_path, monkeypatch):
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path))
    monkeypatch.setenv("JUMAR_EMULATE_FAULTS", "faults: [{op: gelu, kind: wrong}]")
    done = golden("verify", goldens)
    assert done.exit_code == 1, done.output
    assert "✗ short, vector.0: relative distance" in done.stdout
    assert "0 of 3 answers match" in done.stdout
    assert "guilty: aten::gelu by device (float32" in done.stdout
    again = golden("verify", goldens)
    assert again.exit_code == 0, again.output


def test_a_model_that_kills_its_process_is_a_failure_that_says_where(goldens, monkeypatch):
    monkeypatch.setenv("JUMAR_EMULATE_FAULTS", "faults: [{op: gelu, kind: abort}]")
    done = golden("verify", goldens)
    assert done.exit_code == 1
    assert "error[parity_failed]" in done.stderr
    assert "SIGABRT" in done.stderr


def test_the_distance_to_the_cpu_is_shown_without_a_verdict(goldens):
    done = golden("diff", goldens)
    assert done.exit_code == 0, done.output
    assert "npu-emulated fp32 on Ascend910B1 (emulated) beside cpu fp32" in done.stdout

"""`jumar operators lint|explain|convert` as a user sees them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.operators.policy.toy import catalogue, file

from jumar.cli.app import jumar
from jumar.operators.catalogue import write

pytestmark = pytest.mark.usefixtures("elsewhere")


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No policy and no evidence of whoever runs the tests; a catalogue without torch."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUMAR_EVIDENCE", str(tmp_path / "evidence"))
    monkeypatch.setenv("JUMAR_OPERATOR_POLICY", str(file(tmp_path, "mine.yaml", "strict: false")))
    monkeypatch.delenv("JUMAR_OPERATOR_RULES", raising=False)
    write(catalogue(), tmp_path / "gems.json", source="a test")


def run(*line: str) -> Result:
    return CliRunner().invoke(jumar, ["operators", *line], prog_name="jumar")


def test_lint_says_what_it_held_the_names_against_and_fails_on_errors(tmp_path: Path) -> None:
    file(tmp_path, "unused.txt", "linear\npow")
    done = run("lint", "unused.txt", "--catalogue", "gems.json")
    first, second, row = done.stdout.splitlines()
    assert first == "held against: flag_gems 1.2.3"
    assert second == "unused.txt: 1 error"
    assert row.split()[:4] == ["2", "error", "dead-entry", "pow"]
    assert done.exit_code == 1


def test_lint_passes_where_there_are_only_warnings(tmp_path: Path) -> None:
    file(tmp_path, "unused.txt", "mm")
    done = run("lint", "unused.txt", "--catalogue", "gems.json")
    assert "1 warning" in done.stdout
    assert done.exit_code == 0


def test_lint_as_json_is_json_and_nothing_else(tmp_path: Path) -> None:
    file(tmp_path, "unused.txt", "pow")
    done = run("lint", "unused.txt", "--catalogue", "gems.json", "--json")
    data = json.loads(done.stdout)
    assert data["catalogue"] == {"flag_gems": "1.2.3"}
    (finding,) = data["findings"]
    assert (finding["file"], finding["line"], finding["severity"]) == ("unused.txt", 1, "error")
    assert "pow_scalar" in finding["nearest"]


def test_explain_shows_every_line_that_had_a_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = "{order: [{providers: [flag_gems, device, reference]}]}"
    monkeypatch.setenv("JUMAR_OPERATOR_RULES", rules)
    text = """
        deny:
          - families: linear
            providers: flag_gems
            when: {compiler: triton-ascend==3.2.0}
            because: it hangs
    """
    file(tmp_path, "mine.yaml", text)
    asked = ("explain", "linear", "--catalogue", "gems.json", "--assume")
    hangs = run(*asked, "triton-ascend=3.2.0")
    assert hangs.stdout.splitlines()[0] == "aten::linear on cpu: device"
    assert "denied: it hangs" in hangs.stdout
    assert "mine.yaml:3" in hangs.stdout
    assert "environment JUMAR_OPERATOR_RULES:1" in hangs.stdout
    works = run(*asked, "triton-ascend=3.2.1")
    assert works.stdout.splitlines()[0] == "aten::linear on cpu: flag_gems"
    assert "denied only for compiler triton-ascend==3.2.0" in works.stdout


def test_explain_as_json_names_the_line_that_decided() -> None:
    done = run("explain", "aten::mm", "--catalogue", "gems.json", "--json")
    data = json.loads(done.stdout)
    assert (data["implementation"], data["decided_by"]) == ("device", "built in")
    assert data["steps"][-1]["effect"] == "chosen"


def test_explain_takes_quarantine_by_shape_and_dtype(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jumar.devices.cpu import CPU
    from jumar.evidence import Evidence, Store, Subject

    here = {"device_class": "cpu", **CPU().fingerprint()}
    subject = Subject(
        operator="aten::mm", implementation="device", shape_class="1x64", dtype="bfloat16"
    )
    Store().add(
        Evidence(subject=subject, fingerprint=here, verdict="wrong", found_by="check", at=1.0)
    )
    asked = ("explain", "aten::mm", "--catalogue", "gems.json", "--dtype", "bf16", "--shape")
    assert run(*asked, "1x50").stdout.startswith("aten::mm on cpu: reference")
    assert run(*asked, "8x50").stdout.startswith("aten::mm on cpu: device")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (("explain", "aten::mn"), 2, "aten::mm"),
        (("explain", "aten::mm", "--shape", "2by8"), 2, "2x8"),
        (("explain", "aten::mm", "--dtype", "bf61"), 2, "bf16"),
        (("explain", "aten::mm", "--dtype", "float23"), 2, "float32"),
        (("explain", "aten::mm", "--assume", "cann"), 2, "NAME=VALUE"),
        (("explain", "aten::mm", "--device", "tpu"), 2, "npu"),
        (("convert", "none.yaml", "--to", "jumar"), 2, "cannot be read"),
        (("convert", "mine.yaml", "--to", "toml"), 2, "flag-gems"),
        (("convert", "mine.yaml", "--to", "jumar", "--out", "none/here.yaml"), 4, "none/here.yaml"),
    ],
)
def test_a_wrong_request_is_refused_with_the_way_out(
    line: tuple[str, ...], code: int, words: str
) -> None:
    done = run(*line, "--catalogue", "gems.json")
    assert done.exit_code == code
    assert words in done.stderr


@pytest.mark.parametrize(
    "line",
    [
        ("lint", "names.txt"),
        ("lint", "mine.yaml"),
        ("explain", "aten::mm"),
        ("convert", "names.txt", "--to", "jumar"),
    ],
)
def test_functions_alone_do_not_tell_what_they_are_of(
    tmp_path: Path, line: tuple[str, ...]
) -> None:
    """Else a lint would pass over what it cannot see: overloads that stay on."""
    file(tmp_path, "names.txt", "mm")
    refused = run(*line, "--catalogue", "flag_gems-5.0.2")
    assert refused.exit_code == 2
    assert refused.stderr.endswith("hint: Add --catalogue live.\n")
    assert run(*line, "--catalogue", "flag_gems-5.0.2", "--catalogue", "live").exit_code == 0


def test_where_flag_gems_is_not_known_the_way_out_can_be_typed(tmp_path: Path) -> None:
    file(tmp_path, "names.txt", "mm")
    refused = run("lint", "names.txt", "--catalogue", "live")
    assert refused.exit_code == 3
    _, _, options = refused.stderr.splitlines()[-1].partition(": --")
    done = run("lint", "names.txt", *f"--{options.rstrip('.')}".split())
    assert "partial-cover" in done.stdout


def test_convert_writes_the_file_and_tells_what_it_cannot_say(tmp_path: Path) -> None:
    text = """
        order: [{providers: [device, reference]}]
        deny: [{families: mm, providers: flag_gems, because: slow}]
    """
    file(tmp_path, "policy.yaml", text)
    asked = ("convert", "policy.yaml", "--to", "flag-gems", "--catalogue", "gems.json")
    done = run(*asked)
    assert '"mm_out",  # slow' in done.stdout
    assert "not said in flag-gems: policy.yaml:2: order of every operator" in done.stderr
    assert run(*asked, "--out", "off.py").stdout == ""
    assert (tmp_path / "off.py").read_text() == done.stdout

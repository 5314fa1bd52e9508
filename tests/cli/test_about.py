"""`schema`, `plugins`, `version`, `completion`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Shell

from jumar import __version__
from jumar.contracts import RunReport
from jumar.contracts.errors import InvalidRequest, JumarError


def test_schema_lists_the_contracts(run: Shell) -> None:
    assert run("schema").out.split() == [
        "GenerateRequest",
        "GenerateResult",
        "RunReport",
        "Artifact",
        "BackendTimelineEntry",
        "StageEventRecord",
        "ErrorEnvelope",
    ]


def test_the_schema_of_a_report_has_its_fields(run: Shell) -> None:
    assert set(run("schema", "runreport").json["properties"]) == set(RunReport.model_fields)


def test_the_schema_of_the_envelope_fits_every_error(run: Shell) -> None:
    schema = run("schema", "ErrorEnvelope").json["properties"]["error"]
    for error in (JumarError("x"), InvalidRequest("x", hint="y", param="z")):
        fields = error.envelope()["error"]
        assert set(fields) == set(schema["required"]) == set(schema["properties"])
        assert fields["code"] in schema["properties"]["code"]["enum"]


def test_an_unknown_contract_names_the_nearest(run: Shell) -> None:
    assert run("schema", "Artefact").code == 2
    assert run.err.endswith("hint: Did you mean 'Artifact'?\n")


def test_plugins_shows_who_brought_what(run: Shell) -> None:
    rows = {row["name"]: row for row in run("plugins", "--json").json if row["name"] == "toy"}
    assert rows["toy"]["distribution"] == "jumar_toy"
    assert rows["toy"]["version"] == "0.1"
    assert rows["toy"]["error"] is None


def test_a_plugin_that_does_not_load_is_shown_with_its_error(
    run: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "broken-2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text("[jumar.families]\nlost = no_such_module:X\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert run("plugins").code == 0
    assert "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'" in run.out


def test_version_names_what_is_installed_and_what_is_not(run: Shell) -> None:
    versions = run("version", "--json").json
    assert versions["jumar"] == __version__
    assert versions["click"]
    assert versions["torch_npu"] is None


def test_version_imports_nothing_of_what_it_names() -> None:
    script = (
        "import sys\nfrom jumar.cli import main\n"
        "try: main(['version'])\nexcept SystemExit: pass\n"
        "print({'torch', 'numpy', 'pydantic'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str, run: Shell) -> None:
    assert run("completion", shell).code == 0
    assert "_JUMAR_COMPLETE" in run.out


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("jumar mod", "models"),
        ("jumar generate --model hib", "hibari"),
        ("jumar generate --model sdxl-digits --guid", "--guidance-scale"),
        ("jumar generate --model sdxl-digits --preset qu", "quality"),
    ],
)
def test_completion_knows_commands_models_flags_and_choices(words: str, found: str) -> None:
    environment = {
        **os.environ,
        "_JUMAR_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    script = "import sys; sys.argv = ['jumar']\nfrom jumar.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert f"plain,{found}" in done.stdout.splitlines(), done.stderr

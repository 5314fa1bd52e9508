"""The command line in this process, on a machine where the toy distribution is installed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.engine.conftest import toy_model

from jumar.cli.app import jumar

__all__ = ["toy_model"]


class Shell:
    """Runs command lines in `folder`; the last one's code and output are kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.code = 0
        self.out = ""
        self.err = ""

    def __call__(self, *line: str, stdin: str | None = None) -> Shell:
        done = CliRunner().invoke(jumar, list(line), input=stdin, prog_name="jumar")
        self.code, self.out, self.err = done.exit_code, done.stdout, done.stderr
        return self

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.delenv("JUMAR_DEBUG", raising=False)
    return Shell(tmp_path)

"""The table of commands, its help, and what may be imported for it."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest
from tests.cli.conftest import Shell

from jumar import __version__
from jumar.cli.app import COMMANDS, jumar

HEAVY = ("asyncio", "importlib.metadata", "jinja2", "numpy", "pydantic", "rich", "torch", "yaml")


def modules_after(line: str, *, prelude: str = "") -> set[str]:
    """The modules that a new interpreter has loaded after a command line."""
    script = (
        f"import sys\n{prelude}\n"
        "from jumar.cli import main\n"
        f"try: main({line.split()!r})\n"
        "except SystemExit: pass\n"
        "print('\\n' + ' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize("line", ["--help", "--version", "models", "models --json"])
def test_what_is_asked_often_loads_nothing_heavy(line: str) -> None:
    assert modules_after(line).isdisjoint(HEAVY)


def test_the_check_of_loaded_modules_sees_a_heavy_one() -> None:
    assert "rich" in modules_after("--help", prelude="import rich")


def test_the_help_of_the_program_imports_no_command() -> None:
    loaded = modules_after("--help")
    commands = {row.target.partition(":")[0] for row in COMMANDS.values()}
    assert loaded.isdisjoint(commands)


def test_the_errors_load_with_the_standard_library_alone() -> None:
    script = "import sys, jumar.contracts.errors; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert set(done.stdout.split()).isdisjoint((*HEAVY, "click"))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_row_of_the_table_is_a_command_that_explains_itself(name: str) -> None:
    command = jumar.get_command(click.Context(jumar), name)
    assert isinstance(command, click.Command)
    assert command.help


def test_the_help_shows_every_command_with_its_line(run: Shell) -> None:
    out = run("--help").out
    for name, row in COMMANDS.items():
        assert any(
            line.strip().startswith(name) and line.endswith(row.help) for line in out.splitlines()
        ), name


def test_a_command_of_two_words_is_found_before_the_one_of_its_first(run: Shell) -> None:
    assert "Usage: jumar models pull" in run("models", "pull", "--help").out
    assert "Usage: jumar models [OPTIONS]" in run("models", "--help").out


def test_an_unknown_command_names_the_nearest(run: Shell) -> None:
    assert run("modles").code == 2
    assert run.err.splitlines() == [
        "error[invalid_request]: There is no command 'modles'.",
        "hint: Did you mean 'models'?",
    ]


FIRST_WORDS = sorted({name.split()[0] for name in COMMANDS if " " in name} - {*COMMANDS})


@pytest.mark.parametrize("word", FIRST_WORDS)
@pytest.mark.parametrize("more", [[], ["--help"], ["-h"]])
def test_the_first_word_of_several_commands_names_them(
    run: Shell, word: str, more: list[str]
) -> None:
    assert run(word, *more).code == 2
    hint = run.err.splitlines()[-1].removeprefix("hint: One of: ")
    assert hint.split(", ") == [name for name in COMMANDS if name.startswith(f"{word} ")]


@pytest.mark.parametrize("word", FIRST_WORDS)
def test_a_wrong_second_word_names_the_nearest_after_the_first(run: Shell, word: str) -> None:
    meant = next(name for name in COMMANDS if name.startswith(f"{word} "))
    assert run(f"{meant}x".split()[0], f"{meant}x".split()[1]).code == 2
    assert f"There is no command '{meant}x'." in run.err
    assert repr(meant) in run.err


def test_an_unknown_option_names_the_nearest(run: Shell) -> None:
    assert run("models", "--teir", "core").code == 2
    assert run.err.splitlines() == [
        "error[unknown_key]: There is no option --teir.",
        "hint: Did you mean '--tier'?",
    ]


def test_a_wrong_choice_is_a_wrong_request(run: Shell) -> None:
    assert run("models", "--tier", "best").code == 2
    assert run.err.startswith("error[invalid_request]: Invalid value for '--tier': 'best'")
    assert run.err.endswith("hint: jumar models --help\n")


def test_the_version_is_that_of_the_package(run: Shell) -> None:
    assert run("--version").out == f"jumar {__version__}\n"


@pytest.mark.parametrize("alias", ["omnirt", "vllm-srun"])
def test_an_alias_shows_its_own_name(alias: str) -> None:
    script = f"import sys; sys.argv = ['/usr/bin/{alias}', 'models', '--help']\n"
    script += "from jumar.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith(f"Usage: {alias} models ")


def test_the_package_runs_as_a_module() -> None:
    line = [sys.executable, "-m", "jumar", "--version"]
    assert subprocess.run(line, capture_output=True, text=True).stdout == f"jumar {__version__}\n"

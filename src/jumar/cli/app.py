"""The commands of `jumar`: one table. A command's module is imported when it is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from jumar import __version__
from jumar.cli.errors import exit_code_of, problem
from jumar.contracts.errors import InvalidRequest, did_you_mean


class Row(NamedTuple):
    """One command: the heading it stands under, where it lives, and its line in the help."""

    heading: str
    target: str
    help: str


COMMANDS: dict[str, Row] = {
    "generate": Row("Run", "jumar.cli.generate:command", "Run a request on a model."),
    "embed": Row("Run", "jumar.cli.embed:command", "Turn texts into vectors; rank by a query."),
    "classify": Row("Run", "jumar.cli.classify:command", "Say what texts are."),
    "rerank": Row("Run", "jumar.cli.rerank:command", "Rank documents by a query."),
    "decide": Row("Run", "jumar.cli.decide:command", "Answer typed questions about a text."),
    "serve": Row("Run", "jumar.cli.serve:command", "Serve models over HTTP."),
    "validate": Row("Run", "jumar.cli.validate:command", "Check a request without running it."),
    "report": Row("Run", "jumar.cli.report:command", "Show a run: table, page or trace."),
    "models": Row("Models", "jumar.cli.models:command", "List the models, or describe one."),
    "models pull": Row("Models", "jumar.cli.weights:pull", "Fetch a model's weights."),
    "models where": Row("Models", "jumar.cli.weights:where", "Say where a model's weights are."),
    "vllm serve": Row(
        "vLLM", "jumar.cli.vllm.serving:serve", "Serve a model with vLLM, and heal it."
    ),
    "vllm golden": Row("vLLM", "jumar.cli.vllm.serving:golden", "Record what it has to say."),
    "vllm status": Row("vLLM", "jumar.cli.vllm.looking:status", "Say what vLLM runs on, and why."),
    "vllm patches": Row("vLLM", "jumar.cli.vllm.looking:patches", "List what is changed in vLLM."),
    "operators list": Row(
        "Operators", "jumar.cli.operators.catalogue:list_command", "List operators by name."
    ),
    "operators show": Row(
        "Operators", "jumar.cli.operators.catalogue:show_command", "Explain one operator."
    ),
    "operators record": Row(
        "Operators", "jumar.cli.operators.catalogue:record", "Record the names that are here."
    ),
    "operators lint": Row(
        "Operators", "jumar.cli.operators.policy:lint", "Find lines that switch nothing off."
    ),
    "operators explain": Row(
        "Operators", "jumar.cli.operators.policy:explain", "Show which line decides."
    ),
    "operators convert": Row(
        "Operators", "jumar.cli.operators.policy:convert", "Write a list in another format."
    ),
    "operators check": Row(
        "Lab", "jumar.cli.operators.check:command", "Hold implementations to the CPU."
    ),
    "shadow": Row("Lab", "jumar.cli.shadow:command", "Name every operator that computes wrong."),
    "evidence list": Row("Lab", "jumar.cli.evidence:list_evidence", "List what was found out."),
    "evidence show": Row(
        "Lab", "jumar.cli.evidence:show_evidence", "Show a record, or its script."
    ),
    "quarantine list": Row("Lab", "jumar.cli.evidence:list_quarantine", "List what is not used."),
    "quarantine export": Row("Lab", "jumar.cli.evidence:export", "Print it as a deny list."),
    "quarantine lift": Row("Lab", "jumar.cli.evidence:lift", "End a rule by hand, with a reason."),
    "golden record": Row(
        "Lab", "jumar.cli.golden.commands:record", "Record what a model has to say."
    ),
    "golden verify": Row(
        "Lab", "jumar.cli.golden.commands:verify", "Hold a model to its golden answers."
    ),
    "golden diff": Row("Lab", "jumar.cli.golden.commands:diff", "Compare two kinds of device."),
    "bisect": Row("Lab", "jumar.cli.bisect.command:command", "Find the guilty operators."),
    "host": Row("Machine", "jumar.cli.host:command", "Show what this machine has."),
    "devices": Row("Machine", "jumar.cli.devices:command", "List the devices."),
    "doctor": Row("Machine", "jumar.cli.doctor:command", "Find out what is wrong here, and why."),
    "container": Row("Machine", "jumar.cli.container:command", "Plan a container that starts."),
    "schema": Row("About", "jumar.cli.schema:command", "Print the JSON Schema of a contract."),
    "plugins": Row("About", "jumar.cli.plugins:command", "List installed extensions."),
    "version": Row("About", "jumar.cli.version:command", "Print versions."),
    "completion": Row("About", "jumar.cli.completion:command", "Print a completion script."),
}


class Commands(click.Group):
    """The rows of COMMANDS as a click group. A name may be two words: the longest match counts."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name].target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find `models pull` before `models`."""
        for count in (2, 1):
            name = " ".join(args[:count])
            if name in COMMANDS:
                return name, self.get_command(ctx, name), args[count:]
        if ctx.resilient_parsing:
            return None, None, args[1:]
        raise _unknown(args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table under its headings; nothing is imported for it."""
        width = max(map(len, COMMANDS))
        for heading in dict.fromkeys(row.heading for row in COMMANDS.values()):
            rows = [(n.ljust(width), r.help) for n, r in COMMANDS.items() if r.heading == heading]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> None:
        """Run a command line; the one place where errors become text and exit codes."""
        argv = list(sys.argv[1:] if args is None else args)
        words = argv[: argv.index("--")] if "--" in argv else argv
        debug = "--debug" in words or os.environ.get("JUMAR_DEBUG", "0") not in ("", "0")
        if "--debug" in words:
            argv.remove("--debug")  # taken anywhere on the line, where one thinks of it
        extra["standalone_mode"] = False
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the caller (`>&-`): nobody listens
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
        try:
            code = super().main(argv, prog_name, **extra)
        except Exception as error:  # noqa: BLE001  (the boundary: everything is told, nothing lost)
            code = exit_code_of(problem(error), as_json="--json" in words, debug=debug)
        lost = _let_go_of_output()
        if lost is not None and not code and not isinstance(lost, BrokenPipeError):
            code = exit_code_of(problem(lost), as_json=False, debug=debug)
        sys.exit(code if isinstance(code, int) else 0)


def _let_go_of_output() -> OSError | None:
    """Drop what stdout still holds where it cannot be written, and say why: Python would try again
    when it ends, and exit with a code of its own (120).
    """
    try:
        sys.stdout.flush()
    except OSError as error:
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return error
    return None


def _unknown(args: Sequence[str]) -> InvalidRequest:
    """Where the first word begins commands of two words, these are what may be meant."""
    own = [name for name in COMMANDS if name.startswith(f"{args[0]} ")]
    words = [word for word in args[: 2 if own else 1] if not word.startswith("-")]
    if own and len(words) == 1:
        return InvalidRequest(f"{args[0]!r} needs a second word.", hint=f"One of: {', '.join(own)}")
    name = " ".join(words)
    return InvalidRequest(
        f"There is no command {name!r}.", hint=did_you_mean(name, own or COMMANDS)
    )


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: jumar models",
)
@click.version_option(
    __version__, "--version", "-V", prog_name="jumar", message="%(prog)s %(version)s"
)
@click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")
def jumar() -> None:
    """Run AI models on Ascend NPUs, NVIDIA GPUs and CPUs behind one contract."""

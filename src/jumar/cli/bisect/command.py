"""`jumar bisect`: from a model that fails on a device to the operators that are guilty of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.flags import ModelCommand, request_of, request_options
from jumar.contracts.errors import InvalidInput, InvalidRequest

if TYPE_CHECKING:
    from jumar.lab.foreign import Command

FAILED = 1
_COMMAND = "jumar.bisect.command"
_OF_COMMANDS = ("operators", "spelling", "deny_variable", "expect")
_OF_MODELS = ("request_file", "model", "task", "settings", "loras", "evidence")


class BisectCommand(ModelCommand):
    """What stands after `--` is a foreign command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take the command off the line, then parse the rest."""
        end = args.index("--") if "--" in args else len(args)
        ctx.meta[_COMMAND] = args[end + 1 :]
        return super().parse_args(ctx, args[:end])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """What may stand on the line."""
        return [*super().collect_usage_pieces(ctx), "[-- CMD…]"]


@click.command(cls=BisectCommand)
@request_options
@click.option(
    "--repeat",
    default=1,
    show_default=True,
    type=click.IntRange(1),
    help="Runs per trial, for faults that come and go.",
)
@click.option(
    "--time-limit",
    metavar="SECONDS",
    type=click.FloatRange(0, min_open=True),
    help="What takes longer hangs.  [default 10 times what it takes without a fault, at least 5 s]",
)
@click.option("--evidence", metavar="FOLDER", help="Where evidence is kept.")
@click.option(
    "--operators",
    default="auto",
    show_default=True,
    metavar="FILE",
    help="For CMD: the names to switch, one a line; auto: all that are installed.",
)
@click.option(
    "--format",
    "spelling",
    type=click.Choice(["names", "functions"]),
    default="names",
    show_default=True,
    help="For CMD and auto: operators of torch, or functions of FlagGems.",
)
@click.option(
    "--deny-variable",
    metavar="NAME",
    default="JUMAR_OPERATORS_DENY",
    show_default=True,
    help="For CMD: the variable that tells it what is off.",
)
@click.option("--expect", metavar="TEXT", help="For CMD: text that its output has to have.")
@click.pass_context
def command(ctx: click.Context, /, *, as_json: bool, **options: Any) -> None:
    """Find the operators that make a model, or CMD, fail on a device: hang, abort, raise, or
    answer wrongly, alone or together.

    Operators are switched to the CPU's kernels, in watched processes, until what is left is
    minimal. What is found is kept as evidence. Exit code 0: nothing fails; 1: something does.
    """
    argv = ctx.meta[_COMMAND]
    _refuse(ctx, _OF_MODELS if argv else _OF_COMMANDS, "a model" if argv else "a command: -- CMD…")
    if argv:
        ctx.exit(_program(argv, options, as_json))
    ctx.exit(_model(ctx, options, as_json))


def _refuse(ctx: click.Context, names: tuple[str, ...], whose: str) -> None:
    """Options that would do nothing here are an error."""
    from click.core import ParameterSource

    for param in ctx.command.get_params(ctx):
        named = str(param.name)
        if named in names and ctx.get_parameter_source(named) is ParameterSource.COMMANDLINE:
            raise InvalidRequest(f"{param.opts[0]} belongs to {whose}.", param=named)


def _model(ctx: click.Context, options: dict[str, Any], as_json: bool) -> int:
    from jumar.cli.bisect import model, shown
    from jumar.evidence import Store, quarantine
    from jumar.lab.bisect import bisect
    from jumar.lab.blame import evidence
    from jumar.lab.trials import Checked

    request = model.plain(request_of(ctx))
    store = Store(options["evidence"]).ready()
    with model.trials(request, work_limit=options["time_limit"]) as trials:
        discovered = trials.discovered()
        with Checked(trials, discovered.overrides, discovered.preparing) as check:
            found = bisect(
                check,
                discovered.overrides,
                suspects=discovered.suspects,
                repeat=options["repeat"],
                on_trial=shown.on_trial,
            )
        known = {**discovered.calls, **{call.operator: call for call in discovered.stops}}
        records = evidence(
            found, known, device=trials.device, fingerprint=model.fingerprint(trials.device)
        )
    held = quarantine(Store(), model.fingerprint(trials.device)).subjects()
    for record in records:
        store.add(record)
    conclusion = shown.conclusion_of(found)
    if held:
        conclusion += f" In quarantine, and off throughout: {', '.join(map(str, held))}."
    if found.finding == "passes" and request.config.get("compile") == "off":
        conclusion += " Trials run without graphs: --compile on looks at those."
    if as_json:
        shown.found_as_json(found, conclusion, discovered.stops, records)
    else:
        further = [f"stopped in: {call}" for call in discovered.stops]
        further += [f"evidence {record.id}: {record.subject}" for record in records]
        shown.print_found(found, conclusion, further)
    return 0 if found.finding == "passes" else FAILED


def _program(argv: list[str], options: dict[str, Any], as_json: bool) -> int:
    from jumar.cli.bisect import shown
    from jumar.lab.bisect import bisect

    program = _command(argv, options)
    found = bisect(program, program.overrides, repeat=options["repeat"], on_trial=shown.on_trial)
    conclusion = shown.conclusion_of(found)
    if as_json:
        shown.found_as_json(found, conclusion, (), ())
    else:
        guilty = sorted({one.operator for each in found.sets for one in each})
        further = [f"without them: {program.line(guilty)}"] if guilty else []
        shown.print_found(found, conclusion, further)
    return 0 if found.finding == "passes" else FAILED


def _command(argv: list[str], options: dict[str, Any]) -> Command:
    from jumar.lab.foreign import LONGEST, Command

    limit = options["time_limit"]
    names = _names(options)
    program = Command(argv, names, options["deny_variable"], limit or LONGEST, options["expect"])
    return program if limit else program.measured()


def _names(options: dict[str, Any]) -> list[str]:
    """The operators to switch for a foreign command, in the order of the file or of their names."""
    if options["operators"] != "auto":
        return _listed(options["operators"])
    from jumar.devices import place
    from jumar.operators.catalogue import live
    from jumar.operators.dispatcher import device_key

    catalogue = live()
    if options["spelling"] == "functions":
        names = {one.function for one in catalogue.implementations if one.function}
    else:
        key = device_key(place(options["backend"] or "auto").device.kind)
        names = {one.name for one in catalogue.operators.values() if key in one.keys}
    if not names:
        raise InvalidRequest(
            f"No {options['spelling']} are installed that could be switched.",
            hint="Name them: --operators FILE",
            param="operators",
        )
    return sorted(names)


def _listed(file: str) -> list[str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Cannot read the names in {file}.", param="operators") from error
    names = [line.partition("#")[0].strip() for line in lines]
    return list(dict.fromkeys(filter(None, names)))

"""`jumar golden record`, `verify` and `diff`: what a model has to say, recorded and held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.flags import complete_model
from jumar.contracts.errors import InvalidInput, InvalidRequest

if TYPE_CHECKING:
    from pathlib import Path

    from jumar.lab.golden import Golden, Reference

FAILED, UNVERIFIED = 1, 3
"""Exit codes: a wrong answer; nothing here to hold the answers against."""


def _shared(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else."),
        click.option("--dtype", type=click.Choice(["fp16", "bf16", "fp32"]), help="Number format."),
        click.option(
            "--compile",
            type=click.Choice(["auto", "on", "off"]),
            help="Run modules as graphs where these agree with eager, as in a run.",
        ),
        click.option("--goldens", metavar="FOLDER", help="Where recorded sets are."),
        click.option(
            "--device",
            "--backend",
            "-d",
            default="cpu",
            show_default=True,
            help="cpu, cuda[:N], npu[:N], npu:free.",
        ),
        click.argument("model", shell_complete=complete_model),
    ):
        command = option(command)
    return command


@click.command()
@_shared
@click.option(
    "--requests", metavar="FILE", help="Your own requests; they take the place of all recorded."
)
def record(
    model: str,
    device: str,
    goldens: str | None,
    dtype: str | None,
    compile: str | None,  # noqa: A002  (the key's name)
    as_json: bool,
    requests: str | None,
) -> None:
    """Record what MODEL says on a device, once it is fit to be held to.

    The answers must repeat, must not depend on batching, padding or order, and on an accelerator
    must be the CPU's but for the number format's rounding. What is not, is not recorded.
    """
    from jumar.lab.golden.files import read_requests, write
    from jumar.lab.golden.places import users_folder

    golden = _known(model, goldens)
    if requests is not None:
        golden = replace(golden, requests=read_requests(requests), references=())
    anchor = None
    if not device.startswith("cpu"):
        golden, anchor = _anchored(golden)
    golden, made = _ask(golden, device, _load_keys(dtype, compile), "record", anchor)
    golden = _with(golden, made)
    path = write(golden, users_folder(goldens) / golden.model)
    _print_recorded(golden, made, path, as_json)


@click.command()
@_shared
@click.option(
    "--shadow/--no-shadow",
    default=True,
    help="Name the operators behind a wrong answer on an accelerator.",
)
@click.pass_context
def verify(
    ctx: click.Context,
    model: str,
    device: str,
    goldens: str | None,
    dtype: str | None,
    compile: str | None,  # noqa: A002  (the key's name)
    as_json: bool,
    shadow: bool,
) -> None:
    """Ask MODEL its golden requests on a device, and compare.

    Where an answer is wrong, a shadow of that request names the operators whose own numbers are
    wrong; they stand in quarantine from then on.

    Exit code 0: matched; 1: a wrong answer; 3: no reference for this kind of device, the model was
    only held against itself.
    """
    from jumar.cli.golden.shown import outcome_as_json, print_outcome

    config = _load_keys(dtype, compile)
    golden, outcome = _ask(_known(model, goldens), device, config, "verify", None)
    named = None
    if outcome.findings and shadow and outcome.key.device_class != "cpu":
        from jumar.cli.golden.culprits import culprits
        from jumar.devices import place

        named = culprits(golden, outcome, place(device).device.label, config)
    (outcome_as_json if as_json else print_outcome)(golden, outcome, named)
    ctx.exit({"failed": FAILED, "unverified": UNVERIFIED}.get(outcome.status, 0))


@click.command()
@_shared
@click.option(
    "--with", "other", default="cpu", show_default=True, help="The device class to compare with."
)
def diff(
    model: str,
    device: str,
    goldens: str | None,
    dtype: str | None,
    compile: str | None,  # noqa: A002  (the key's name)
    as_json: bool,
    other: str,
) -> None:
    """Show how far MODEL's answers on a device are from those recorded on another kind.

    Distances only, no verdict: devices of different kinds never judge each other.
    """
    from jumar.cli.golden.shown import distances_as_json, print_distances

    golden = _known(model, goldens)
    reference = next((r for r in golden.references if r.key.device_class == other), None)
    if reference is None:
        kinds = ", ".join(sorted({r.key.device_class for r in golden.references})) or "none"
        raise InvalidRequest(
            f"There is no reference of {model} for {other!r}.",
            hint=f"Recorded: {kinds}. Record one: jumar golden record {model} --device …",
            param="with",
        )
    _, outcome = _ask(golden, device, _load_keys(dtype, compile), "verify", None)
    (distances_as_json if as_json else print_distances)(reference, outcome)


def _known(model: str, goldens: str | None) -> Golden:
    """The set that is recorded of a model, or an empty one."""
    from jumar import catalog
    from jumar.engine.answers import digest
    from jumar.lab.golden import Golden, read
    from jumar.lab.golden.places import folder_of

    manifest = catalog.get(model)
    now = digest(manifest)
    folder = folder_of(manifest.id, goldens)
    if folder is None:
        return Golden(manifest.id, now, manifest.primary_task, ())
    golden = read(folder)
    if golden.digest != now:
        raise InvalidInput(
            f"The golden set in {folder} belongs to other weights of {model}.",
            hint="Move it away and record anew: jumar golden record …",
        )
    return golden


def _ask(
    golden: Golden, device: str, config: dict[str, Any], what: str, anchor: Reference | None
) -> tuple[Golden, Any]:
    from jumar.cli.golden.asking import Job, ask
    from jumar.cli.golden.shown import counting

    with counting(f"{golden.model} on {device}") as counted:
        return ask(golden.model, device, config, Job(what, golden, anchor), counted)


def _load_keys(dtype: str | None, compile: str | None) -> dict[str, Any]:  # noqa: A002
    given = {"dtype": dtype, "compile": compile}
    return {key: value for key, value in given.items() if value is not None}


def _anchored(golden: Golden) -> tuple[Golden, Reference]:
    """The set with a CPU reference in it: recorded now, where there is none."""
    known = next((r for r in golden.references if r.key.device_class == "cpu"), None)
    if known is not None:
        return golden, known
    golden, made = _ask(golden, "cpu", {}, "record", None)
    return _with(golden, made), made


def _with(golden: Golden, made: Reference) -> Golden:
    others = tuple(one for one in golden.references if one.key != made.key)
    return replace(golden, references=(*others, made))


def _print_recorded(golden: Golden, made: Reference, path: Path, as_json: bool) -> None:
    from jumar.cli.show import as_json as print_json
    from jumar.lab.golden import covered

    answers = sum(map(len, made.answers.values()))
    if as_json:
        print_json(
            {
                "model": golden.model,
                "key": str(made.key),
                "answers": answers,
                "anchor": made.anchor,
                "covers": covered(golden),
                "file": str(path),
            }
        )
        return
    click.echo(path)
    click.secho(
        f"{golden.model} on {made.key}: {answers} answers to {len(golden.requests)}"
        f" requests. Anchor: {made.anchor}. Covers {', '.join(covered(golden))}.",
        dim=True,
        err=True,
    )

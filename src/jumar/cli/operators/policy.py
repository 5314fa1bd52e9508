"""`jumar operators lint|explain|convert`: policies and the lists of others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.table import print_table

if TYPE_CHECKING:
    from jumar.operators.catalogue import Catalogue
    from jumar.operators.policy.lint import Finding

COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}

catalogue_option = click.option(
    "--catalogue",
    "catalogues",
    multiple=True,
    metavar="FILE",
    help="A recorded catalogue, by file or name, or `live`; several are joined. Default: live.",
)


@click.command()
@click.argument(
    "files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path)
)
@catalogue_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def lint(files: Sequence[Path], catalogues: Sequence[str], as_json: bool) -> int:
    """Find lines that do not do what they say; exit code 1 where one is an error.

    Reads Jumar's policies, vllm-plugin-FL's YAML, and FlagGems' lists: YAML, plain text, or Python
    that calls flag_gems.enable(unused=[...]).
    """
    from jumar.operators.policy.lint import lint as check

    known = _opened(catalogues)
    found = {path: check(path, known) for path in files}
    if as_json:
        from jumar.cli import show

        rows = [one.to_dict() for findings in found.values() for one in findings]
        show.as_json({"catalogue": dict(known.versions), "findings": rows})
    else:
        click.secho(_versions(known), dim=True)
        for path, findings in found.items():
            _print(path, findings)
    everything = [one for findings in found.values() for one in findings]
    return 1 if any(one.severity == "error" for one in everything) else 0


@click.command()
@click.argument("operator", metavar="OP")
@click.option("--shape", metavar="2x8,8", help="Sizes of the tensors, for quarantine by shape.")
@click.option("--dtype", metavar="NAME", help="fp32, bf16, fp16, or as torch writes it.")
@click.option("--device", default="cpu", show_default=True, help="The device that computes.")
@click.option(
    "--assume",
    multiple=True,
    metavar="NAME=VALUE",
    help="What to take for granted of the device: cann=8.5.0. It need not be here then.",
)
@catalogue_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def explain(
    operator: str,
    shape: str | None,
    dtype: str | None,
    device: str,
    assume: Sequence[str],
    catalogues: Sequence[str],
    as_json: bool,
) -> None:
    """Show which implementation computes an operator, and every line that had a say in it."""
    from jumar.operators.policy.explain import explain as decide

    decision = decide(
        operator,
        _opened(catalogues),
        device=device,
        shape=shape,
        dtype=dtype,
        assumed=dict(map(_pair, assume)),
    )
    if as_json:
        from jumar.cli import show

        steps = [step._asdict() for step in decision.steps]
        show.as_json(
            {
                "operator": decision.operator,
                "device_class": decision.device_class or None,
                "implementation": decision.implementation,
                "decided_by": decision.line.origin,
                "steps": steps,
            }
        )
        return
    place = decision.device_class or device
    click.secho(f"{decision.operator} on {place}: {decision.implementation}", bold=True)
    print_table(
        (step.effect, step.implementation or "", step.origin, step.reason)
        for step in decision.steps
    )


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--to",
    required=True,
    type=click.Choice(["jumar", "vllm-plugin-fl", "flag-gems"]),
    help="The format to write.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Write there, not to stdout.")
@catalogue_option
def convert(file: Path, to: Any, out: Path | None, catalogues: Sequence[str]) -> None:
    """Write a policy or a list of others in another format.

    What that format cannot say stands in its comments, and on stderr.
    """
    from jumar.contracts.errors import OutputFailed
    from jumar.operators.policy.convert import convert as converted

    done = converted(file, _opened(catalogues), to=to)
    if out is None:
        click.echo(done.text, nl=False)
    else:
        try:
            out.write_text(done.text, encoding="utf-8")
        except OSError as error:
            raise OutputFailed(f"{out} cannot be written: {error.strerror}.") from error
    for one in done.lost:
        click.secho(f"not said in {to}: {one}", fg="yellow", err=True)


def _opened(names: Sequence[str]) -> Catalogue:
    """A catalogue that has operators: names of functions alone do not tell what they are of."""
    from jumar.contracts.errors import InvalidInput
    from jumar.operators.catalogue import opened

    known = opened(names)
    if not known.operators:
        raise InvalidInput(
            f"{', '.join(names)}: a catalogue of functions alone, without the operators.",
            hint="Add --catalogue live.",
            param="catalogue",
        )
    return known


def _versions(catalogue: Catalogue) -> str:
    said = ", ".join(f"{name} {version}" for name, version in catalogue.versions.items())
    return f"held against: {said}"


def _print(path: Path, findings: Sequence[Finding]) -> None:
    from rich.text import Text

    counts = [
        f"{count} {severity}{'s' if count > 1 else ''}"
        for severity in COLOURS
        if (count := sum(one.severity == severity for one in findings))
    ]
    click.secho(f"{path}: {', '.join(counts) or 'nothing found'}", bold=True)
    print_table(
        (
            f"  {one.line or ''}",
            Text(one.severity, style=COLOURS[one.severity]),
            one.code,
            one.entry,
            f"{one.message}{f'; {one.fix}' if one.fix else ''}",
        )
        for one in findings
    )


def _pair(text: str) -> tuple[str, str]:
    name, given, value = text.partition("=")
    if not given or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint="--assume")
    return name, value

"""`jumar container`: plan a container that starts, and check one from inside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from jumar.cli import show

if TYPE_CHECKING:
    from jumar.deploy.container.checking import Given

MARKS = {"present": "✓", "missing": "-", "wrong": "✗", "unknown": "?"}


@click.group()
def command() -> None:
    """Plan a container that starts on this host, or check one from inside."""


@command.command("plan")
@click.option("--image", required=True, help="The image to start.")
@click.option("--host", metavar="FILE", help="A recorded host instead of this machine.")
@click.option(
    "--devices",
    metavar="N,N",
    help="Numbers of /dev/davinciN (v100: /dev/vdavinci100). Default: all.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["docker", "compose", "kubernetes"]),
    default="docker",
    show_default=True,
)
@click.option("--user", metavar="UID[:GID]", help="Run as this user instead of root.")
@click.option("--torch", metavar="VERSION", help="The torch inside the image, if you know it.")
@click.option(
    "--cann",
    type=click.Choice(["host", "image"]),
    help="Whose CANN to use. Default: the image's, if its name says that it has one.",
)
@click.option("--explain", is_flag=True, help="Give the reason of each line.")
@click.argument("argv", metavar="[COMMAND]...", nargs=-1, type=click.UNPROCESSED)
def plan(
    image: str,
    host: str | None,
    devices: str | None,
    form: str,
    user: str | None,
    torch: str | None,
    cann: Literal["host", "image"] | None,
    explain: bool,
    argv: tuple[str, ...],
) -> int:
    """Write how to start IMAGE here: devices, mounts, environment, and the steps after start.

    Only what exists on the host is mounted. COMMAND is run inside after the steps; without one
    you get a shell.

    \b
    Exit codes:
      0  the plan is complete
      1  something that this product needs is missing on the host
      2  the image is for another chip, or a card does not exist
      3  this host has no NPU
    """
    from jumar.deploy import container
    from jumar.host import open_host

    made = container.plan(
        open_host(host),
        image,
        devices=() if devices is None else listed(devices),
        user=user,
        torch=torch,
        cann=cann,
        command=argv,
    )
    write = {
        "docker": container.docker,
        "compose": container.compose,
        "kubernetes": container.kubernetes,
    }
    click.echo(write[form](made, explain=explain), nl=False)
    for problem in made.problems:
        click.secho(f"missing: {problem.path}: {problem.why}", fg="red", err=True)
    return 1 if made.problems else 0


def listed(devices: str) -> list[str]:
    """The names in a list; an empty one is refused, as all cards were hardly meant by it."""
    names = [part.strip() for part in devices.split(",") if part.strip()]
    if not names:
        raise click.BadParameter("no card is named (leave it out for all)", param_hint="--devices")
    return names


@command.command("check")
@click.option("--host", metavar="FILE", help="A recorded container instead of this one.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
@click.option("--lang", type=click.Choice(["en", "zh"]), help="Default: from the locale.")
def check(host: str | None, as_json: bool, lang: Literal["en", "zh"] | None) -> int:
    """Inside a running container: say what it was not given.

    \b
    Exit codes:
      0  it has everything that its product needs
      1  something is missing, or the doctor found an error
      2  this is not a container
    """
    from jumar.cli.doctor import locale_language
    from jumar.deploy import container
    from jumar.host import open_host

    lang = lang or locale_language()
    facts = open_host(host)
    given, diagnosis = container.check(facts)
    failed = any(one.needed and one.state in ("missing", "wrong") for one in given)
    if as_json:
        fields = [
            {key: getattr(one, key) for key in ("path", "state", "needed", "why", "add")}
            for one in given
        ]
        show.as_json({"given": fields, **diagnosis.as_dict(lang)})
    else:
        from jumar.cli.diagnosis import print_diagnosis
        from jumar.host.product import product_line

        for one in given:
            print_given(one)
        if product_line(facts) is None:
            click.echo(
                "Which product this is cannot be seen here: what only one has is not listed."
            )
        click.echo()
        print_diagnosis(diagnosis, facts, lang)
    return 1 if failed or diagnosis.worst() == "error" else 0


def print_given(one: Given) -> None:
    """One line: what it is, and the option that would add it."""
    bad = one.state in ("missing", "wrong") and one.needed
    mark = "✗" if bad else MARKS[one.state]
    click.secho(f"{mark} {one.path}", fg="red" if bad else None, bold=bad, nl=False)
    click.secho(f"  {one.why}" if one.state == "present" or not one.add else "", dim=True, nl=False)
    if one.state != "present" and one.add:
        must = "needed" if one.needed else "optional"
        click.echo(f"  {one.state}, {must}: {one.why}; start with {one.add}", nl=False)
    click.echo()

"""`jumar plugins`: every extension that is installed, and whether it loads."""

from __future__ import annotations

import click

from jumar.cli import show
from jumar.plugins import GROUPS, Plugin, PluginFailed, installed, load


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
def command(as_json: bool) -> None:
    """List the installed extensions with distribution and version.

    Each is imported; one that fails is shown with its error.
    """
    found = [(plugin, _failure(plugin)) for group in GROUPS for plugin in installed(group)]
    if as_json:
        show.as_json([{**_fields(plugin), "error": error} for plugin, error in found])
        return
    group = None
    width = max((len(plugin.name) for plugin, _ in found), default=0)
    for plugin, error in found:
        if plugin.group != group:
            group = plugin.group
            click.secho(group, bold=True)
        whose = click.style(f"{plugin.distribution} {plugin.version}", dim=True)
        click.echo(f"  {plugin.name.ljust(width)}  {plugin.value}  {whose}")
        if error:
            click.secho(f"  {' ' * width}  cannot be loaded: {error}", fg="red")


def _fields(plugin: Plugin) -> dict[str, str]:
    return {
        "group": plugin.group,
        "name": plugin.name,
        "value": plugin.value,
        "distribution": plugin.distribution,
        "version": plugin.version,
    }


def _failure(plugin: Plugin) -> str | None:
    try:
        load(plugin)
    except PluginFailed as failed:
        return f"{type(failed.__cause__).__name__}: {failed.__cause__}"
    return None

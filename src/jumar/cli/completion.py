"""`jumar completion`: a script that teaches a shell the commands, models and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HOW = {
    "bash": 'eval "$({prog} completion bash)"     # in ~/.bashrc',
    "zsh": 'eval "$({prog} completion zsh)"      # in ~/.zshrc',
    "fish": "{prog} completion fish | source    # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(line.format(prog="jumar") for line in _HOW.values()))
@click.argument("shell", type=click.Choice(tuple(_HOW)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print a completion script for SHELL."""
    root = ctx.find_root()
    prog = (root.info_name or "jumar").split()[-1].rpartition("/")[2]
    variable = f"_{prog}_COMPLETE".replace("-", "_").upper()
    completion = get_completion_class(shell)
    if completion is None:
        raise click.UsageError(f"click knows no completion for {shell}")
    click.echo(completion(root.command, {}, prog, variable).source())

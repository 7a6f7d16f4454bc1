"""`broker-cy completion`: the script that lets a shell complete commands, options, topics, groups and subjects."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from broker_cy.commands import COMPLETE_VARIABLE, PROGRAM

EPILOG = """\b
examples:
  broker-cy completion bash > ~/.local/share/bash-completion/completions/broker-cy
  broker-cy completion zsh > ~/.zfunc/_broker-cy
  broker-cy completion fish > ~/.config/fish/completions/broker-cy.fish
"""


@click.command("completion", epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell."""
    from broker_cy.commands.app import group

    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(group, {}, PROGRAM, COMPLETE_VARIABLE).source())

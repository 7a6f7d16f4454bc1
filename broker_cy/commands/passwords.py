"""Passwords of commands: from a file, a variable of the environment or a prompt, never from the command line, which
others can read in the list of processes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from broker_cy.client.secrets import SECRET_BYTES_MAX, first_line

STDIN: Final = "-"


def password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options `--password-file` and `--password-env`, for `password_of`."""
    file = click.option(
        "--password-file",
        metavar="FILE",
        help=f"File whose first line is the password; {STDIN} for the standard input.",
    )
    variable = click.option("--password-env", metavar="NAME", help="Variable of the environment with the password.")
    return file(variable(command))


def password_of(file: str | None, variable: str | None, whose: str) -> str:
    """The password that the options name; without them it is asked for. Raises click.UsageError."""
    if file is not None and variable is not None:
        raise click.UsageError("--password-file and --password-env cannot be used together")
    if variable is not None:
        found = os.environ.get(variable)
        if not found:
            raise click.UsageError(f"--password-env: the environment has no variable {variable}, or it is empty")
        return found
    if file is not None:
        return _of_file(file)
    if not sys.stdin.isatty():
        raise click.UsageError(
            "a password is needed: use --password-file or --password-env, or a terminal, which asks for it"
        )
    asked: str = click.prompt(f"Password of {whose}", hide_input=True, confirmation_prompt=True, err=True)
    return asked


def _of_file(file: str) -> str:
    try:
        found = sys.stdin.readline(SECRET_BYTES_MAX).rstrip("\r\n") if file == STDIN else first_line(Path(file))
    except OSError as error:
        raise click.UsageError(f"--password-file {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise click.UsageError(f"--password-file {file}: is no text in UTF-8") from None
    if not found:
        raise click.UsageError(f"--password-file {file}: the first line is empty")
    return found

"""The question of all programs before a change."""

from __future__ import annotations

import sys

import click

from broker_cy.client.errors import ClientError, Failure
from broker_cy.client.program import EXIT_NOT_CONFIRMED, print_error


def confirm(program: str, question: str, *, yes: bool, as_json: bool) -> None:
    """Return if `yes` is set or the answer is yes; otherwise end the program with EXIT_NOT_CONFIRMED."""
    if yes:
        return
    if not sys.stdin.isatty():
        reason = "cannot ask for confirmation, because the standard input is not a terminal: add --yes. "
        print_error(program, ClientError(Failure.INVALID, f"{reason}Nothing was changed."), as_json=as_json)
        raise SystemExit(EXIT_NOT_CONFIRMED)
    if not click.confirm(question, default=False, err=True):
        not_confirmed()


def not_confirmed() -> None:
    """End the program after an answer that is not yes."""
    click.echo("Nothing was changed.", err=True)
    raise SystemExit(EXIT_NOT_CONFIRMED)

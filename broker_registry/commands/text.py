"""Texts of schemas for people."""

from __future__ import annotations

import sys
from collections.abc import Iterable

import click

from broker_cy.reporting.foreign_text import clean_lines


def echo_lines(lines: Iterable[str], *, indent: str = "", err: bool = False) -> None:
    """Print foreign text: exactly for a program, without signs that would control a terminal on one."""
    is_terminal = (sys.stderr if err else sys.stdout).isatty()
    for line in lines:
        click.echo(indent + (clean_lines(line) if is_terminal else line), err=err)

"""Output of the commands: JSON for programs, errors, progress, questions."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any
from uuid import UUID

import click

from broker_cy.admin import ClientError
from broker_cy.client import confirmation, program
from broker_cy.commands import PROGRAM
from broker_cy.console.record_json import plain_bytes
from broker_cy.core.uuid import to_text


def plain(value: Any) -> Any:
    """Convert `value` to JSON's types: fields of dataclasses and tuples by name, enums by name, bytes as text or
    base64.
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, bytes):
        return plain_bytes(value)
    if isinstance(value, UUID):
        return to_text(value)
    if isinstance(value, ClientError):
        return program.error_fields(value)
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(key): plain(each) for key, each in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: plain(each) for name, each in value._asdict().items()}
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def print_json(value: Any) -> None:
    """Print one document on the standard output; numbers are exact, however large."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_error(error: ClientError, *, as_json: bool) -> None:
    """Print an error on the standard error: one line of JSON, or one line of text."""
    program.print_error(PROGRAM, error, as_json=as_json)


@contextmanager
def progress(what: str, total: int | None, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on the standard error if it is a terminal and not `quiet`; yields the function to call with
    each advance.
    """
    if quiet or not sys.stderr.isatty():
        yield lambda advance: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda advance: bar.advance(task, advance)


def confirm_typed(expected: str, question: str, *, yes: bool) -> None:
    """As `confirm`, for irreversible changes: the answer must be `expected`."""
    if yes or not sys.stdin.isatty():
        confirm(question, yes=yes)
        return
    typed = click.prompt(f"{question} Type {expected} to confirm", default="", show_default=False, err=True)
    if typed != expected:
        confirmation.not_confirmed()


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation and return if the answer is yes; otherwise end the command with EXIT_NOT_CONFIRMED."""
    context = click.get_current_context(silent=True)
    as_json = context is not None and bool(context.params.get("as_json"))
    confirmation.confirm(PROGRAM, question, yes=yes, as_json=as_json)

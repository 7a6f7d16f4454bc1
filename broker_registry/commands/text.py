"""Texts of schemas for people."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterable

import click

from broker_cy.reporting.foreign_text import clean_lines
from broker_registry.client import Version
from broker_registry.schema_types.base import Kind


def pretty(kind: str, text: str) -> str:
    """Return a schema with a line for each member; a .proto text as it is."""
    if kind == Kind.PROTOBUF.value:
        return text.rstrip("\n")
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        # The name of an Avro type may stand without quotes.
        return text


def difference(old: Version, new: Version) -> list[str]:
    """Return the lines of a unified diff."""
    before, after = (pretty(each.schema.kind, each.schema.text).splitlines() for each in (old, new))
    was, now = (f"{each.subject} version {each.version} (id {each.id})" for each in (old, new))
    return list(difflib.unified_diff(before, after, was, now, lineterm=""))


def echo_lines(lines: Iterable[str], *, indent: str = "") -> None:
    """Print foreign text: exactly for a program, without signs that would control a terminal on one."""
    is_terminal = sys.stdout.isatty()
    for line in lines:
        click.echo(indent + (clean_lines(line) if is_terminal else line))

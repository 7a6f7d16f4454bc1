"""Rows of Spark as tables on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.table import Table

from broker_cy.console.record_json import plain_bytes
from broker_cy.reporting.column import Column
from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import UNKNOWN
from broker_cy.reporting.rich_tables import rich_table

# Bytes of a key or value that are shown.
SHOWN_BYTES = 60


def json_of(value: Any) -> Any:
    """Return a value that JSON does not have in one of JSON's types; times are in UTC."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, bytes | bytearray):
        return plain_bytes(bytes(value))
    return str(value)


def text_of(value: Any, timespec: str = "seconds") -> str:
    """Return the text of a value, with times in UTC and as exact as `timespec`, and without commands of terminals."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, datetime):
        # Spark's times without a zone are in this machine's zone. The Z is part of the text that a user can type.
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(sep=" ", timespec=timespec) + "Z"
    if isinstance(value, bytes | bytearray):
        shown = bytes(value[:SHOWN_BYTES]).decode("utf-8", "backslashreplace")
        return clean(shown + ("…" if len(value) > SHOWN_BYTES else ""))
    return clean(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def table(
    title: str, names: Sequence[str], rows: Iterable[Any], *, timespec: str = "seconds", notes: Iterable[str] = ()
) -> Table:
    """Return some columns of rows."""
    return rich_table(title, [_column(name, timespec) for name in names], rows, notes=notes)


def _column(name: str, timespec: str) -> Column[Any]:
    return Column(name, name, lambda row: row[name], text=lambda row: text_of(row[name], timespec))

"""Values of rows as readable texts in a table on a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from rich.markup import escape

from broker_cy.reporting.foreign_text import clean
from broker_cy.reporting.numbers import UNKNOWN

# Bytes of a key or value that are shown.
SHOWN_BYTES = 60


def text_of(value: Any, timespec: str = "seconds") -> str:
    """Return the text of a value, with times in UTC and as exact as `timespec`, and without anything that rich would
    interpret as markup, or a terminal as a command.
    """
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
        return escape(clean(shown + ("…" if len(value) > SHOWN_BYTES else "")))
    return escape(clean(", ".join(map(str, value)) if isinstance(value, list) else str(value)))

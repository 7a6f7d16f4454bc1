"""Columns of records. Each console shows keys and values in the format that was chosen there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.console.payload import Format, line
from broker_cy.console.scan import Row
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone

Line = Callable[[Row], str]
"""Returns the text of a cell."""


def data_column(key: str, title: str, data: Callable[[Row], bytes | None], text: Line) -> Column[Row]:
    """Return the column of keys or values."""
    return Column(
        key,
        title,
        data,
        text=text,
        tone=lambda row: Tone.MUTED if data(row) is None else Tone.PLAIN,
        sorts=False,
        width=16,
    )


def key_column(shown: Callable[[], Format], text: Line | None = None) -> Column[Row]:
    """Return the column of keys, in the format that `shown` returns, or with a text of its own."""
    return data_column("key", "Key", lambda row: row.record.key, text or (lambda row: line(row.record.key, shown())))


def value_column(shown: Callable[[], Format], text: Line | None = None) -> Column[Row]:
    """As `key_column`, for values."""
    return data_column(
        "value", "Value", lambda row: row.record.value, text or (lambda row: line(row.record.value, shown()))
    )


TIME: Final = Column[Row]("time", "Time", lambda row: row.record.timestamp, Kind.TIME, sorts=False, width=23)
PARTITION: Final = Column[Row]("partition", "Partition", lambda row: row.partition, Kind.NUMBER, sorts=False, width=9)
OFFSET: Final = Column[Row]("offset", "Offset", lambda row: row.record.offset, Kind.NUMBER, sorts=False)
SIZE: Final = Column[Row](
    "size",
    "Size",
    lambda row: len(row.record.value or b""),
    Kind.BYTES,
    sorts=False,
    hint="Bytes of the value",
    width=9,
)
HEADERS: Final = Column[Row](
    "headers", "Headers", lambda row: ", ".join(name for name, _ in row.record.headers), sorts=False, width=16
)

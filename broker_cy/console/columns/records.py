"""Columns of records. Each console shows keys and values in the format that was chosen there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_cy.console.payload import Format, line
from broker_cy.console.scan import Row
from broker_cy.reporting.column import Column, Kind
from broker_cy.reporting.tone import Tone


def data_column(key: str, title: str, data: Callable[[Row], bytes | None], shown: Callable[[], Format]) -> Column[Row]:
    """Return the column of keys or values, in the format that `shown` returns."""
    return Column(
        key,
        title,
        data,
        text=lambda row: line(data(row), shown()),
        tone=lambda row: Tone.MUTED if data(row) is None else Tone.PLAIN,
        sorts=False,
        width=16,
    )


def key_column(shown: Callable[[], Format]) -> Column[Row]:
    return data_column("key", "Key", lambda row: row.record.key, shown)


def value_column(shown: Callable[[], Format]) -> Column[Row]:
    return data_column("value", "Value", lambda row: row.record.value, shown)


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

"""The TIMESTAMP column: times of records that are read, and of those that are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from broker_sql.analysis.settings import THROW_ON_INVALID_TIMESTAMP, Settings
from broker_sql.catalog import SourceInfo
from broker_sql.types import STRING, Kind
from broker_streams.kernel.processor import Processor
from broker_streams.records import Record, Windowed

INVALID_MS: Final = -1
# Sums with sizes of windows and grace periods stay 64-bit integers.
MAX_MS: Final = 1 << 62


class TimestampError(ValueError):
    """A column has no time."""


def reader(source: SourceInfo, settings: Settings) -> Callable[[Any, Any], int] | None:
    """A function of key and value that returns ms. It raises TimestampError if the column has no time and the settings
    ask for that; otherwise it returns -1, and the record is skipped. None: the source has no TIMESTAMP column.
    """
    given = source.timestamp
    if given is None:
        return None
    column = source.schema.find(given.name)
    assert column is not None
    is_key = column.kind is Kind.KEY
    columns = source.schema.key if is_key else source.schema.value
    at = columns.index(column)
    throws = settings.is_on(THROW_ON_INVALID_TIMESTAMP)
    parse = None if given.format is None else settings.functions.scalar("PARSE_TIMESTAMP", (STRING, STRING)).call

    def read(key: Any, value: Any) -> int:
        row = (key.key if isinstance(key, Windowed) else key) if is_key else value
        found = None if row is None else row[at]
        try:
            if found is None:
                raise TimestampError(f"column {given.name} is NULL")
            ms = int(found) if parse is None else parse(found, given.format)
            if not 0 <= ms <= MAX_MS:
                raise TimestampError(f"column {given.name} has {found!r}; 0 to {MAX_MS} ms since 1970 are allowed")
        except (ValueError, ArithmeticError) as error:
            if throws:
                raise TimestampError(f"{source.topic}: no timestamp in column {given.name}: {error}") from error
            settings.log(f"{source.topic}: no timestamp in column {given.name}: {error}", None)
            return INVALID_MS
        return ms

    return read


def extractor(source: SourceInfo, settings: Settings) -> Callable[..., int] | None:
    """A timestamp extractor of broker_streams."""
    read = reader(source, settings)
    if read is None:
        return None

    def extract(record: Any, partition_time_ms: int) -> int:
        return read(record.key, record.value)

    return extract


class SetTimestamp(Processor):
    """Gives records of a sink the time of their TIMESTAMP column. Those without are skipped."""

    def __init__(self, read: Callable[[Any, Any], int]) -> None:
        self._read = read

    def process(self, record: Record) -> None:
        if record.value is None:
            self.context.forward(record)
            return
        ms = self._read(record.key, record.value)
        if ms >= 0:
            self.context.forward(Record(record.key, record.value, ms, record.headers))

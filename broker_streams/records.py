"""The values that processors pass on: records, changes of tables, windowed keys.

Timestamps are ms since 1970. A headers value is a tuple of (name, value) pairs in their order.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from broker_streams.record import Record as Record

Headers = tuple[tuple[str, bytes | None], ...]
NO_HEADERS: Final[Headers] = ()


class RecordMetadata(NamedTuple):
    """The place of the input record that is processed now."""

    topic: str
    partition: int
    offset: int


class Change(NamedTuple):
    """A row of a table before and after a record. `is_latest` is False for a record that is older than the row."""

    new: Any
    old: Any
    is_latest: bool = True


class ValueAndTimestamp(NamedTuple):
    """A value of a timestamped store."""

    value: Any
    timestamp: int


class VersionedRecord(NamedTuple):
    """A value of a versioned store, valid from `timestamp` until before `valid_to`; None: it is the latest one."""

    value: Any
    timestamp: int
    valid_to: int | None = None


class Window(NamedTuple):
    """Times from `start_ms` on, before `end_ms`; in a session window, `end_ms` is the time of its last record."""

    start_ms: int
    end_ms: int


class Windowed(NamedTuple):
    """A key in a window."""

    key: Any
    window: Window


class KeyValue(NamedTuple):
    """A pair that a mapper returns, or a row of a store."""

    key: Any
    value: Any

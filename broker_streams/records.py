"""The values that processors pass on: records, changes of tables, windowed keys.

Timestamps are ms since 1970. A headers value is a tuple of (name, value) pairs in their order.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]
NO_HEADERS: Final[Headers] = ()


class Record:
    """A record between two processors (KIP-478). Processors do not change it: they pass on another one."""

    __slots__ = ("headers", "key", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def with_key(self, key: Any) -> Record:
        return Record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value: Any) -> Record:
        return Record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp: int) -> Record:
        return Record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers: Headers) -> Record:
        return Record(self.key, self.value, self.timestamp, headers)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Record):
            return NotImplemented
        return (self.key, self.value, self.timestamp, self.headers) == (
            other.key,
            other.value,
            other.timestamp,
            other.headers,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Record({self.key!r}, {self.value!r}, {self.timestamp}, {self.headers!r})"


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

"""Stores that keep timestamps, without them, as tests often want to see rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker_streams.records import KeyValue, ValueAndTimestamp, Windowed


def _plain(found: ValueAndTimestamp | None) -> Any:
    return None if found is None else found.value


class PlainStore:
    """A timestamped key-value store. Rows that are put have no timestamp (-1), as in Kafka's driver."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def get(self, key: Any) -> Any:
        return _plain(self._store.get(key))

    def put(self, key: Any, value: Any) -> None:
        self._store.put(key, None if value is None else ValueAndTimestamp(value, -1))

    def delete(self, key: Any) -> Any:
        return _plain(self._store.delete(key))

    def range(self, low: Any, high: Any) -> Iterator[KeyValue]:
        return (KeyValue(key, _plain(value)) for key, value in self._store.range(low, high))

    def all(self) -> Iterator[KeyValue]:
        return (KeyValue(key, _plain(value)) for key, value in self._store.all())

    def approximate_num_entries(self) -> int:
        return int(self._store.approximate_num_entries())


class PlainWindowStore:
    """A timestamped window store."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def fetch(self, key: Any, start_ms: int) -> Any:
        return _plain(self._store.fetch(key, start_ms))

    def fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        return ((start_ms, _plain(value)) for start_ms, value in self._store.fetch_range(key, from_ms, to_ms))

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return ((key, _plain(value)) for key, value in self._store.all())

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return ((key, _plain(value)) for key, value in self._store.fetch_all(from_ms, to_ms))

"""Key-value stores: typed > caching > change logging > bytes.

A row of a timestamped store is the value's timestamp and the value (bound.py); its changelog record is the value with
that timestamp. A change of a cached row is passed to the listener when the row leaves the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.bound import Bound, Changed, Listener, to_timestamped
from broker_streams.kernel.stores.key_rows import KeyListener, KeyRows
from broker_streams.kernel.stores.keys import next_prefix, unpack_long
from broker_streams.kernel.stores.maps import RowMap
from broker_streams.kernel.stores.row_formats import KeyWriter, TimestampedReader, TimestampedWriter
from broker_streams.records import NO_HEADERS, Headers, KeyValue, ValueAndTimestamp
from broker_streams.serdes import Serde

Rows = Iterator[tuple[bytes, bytes]]


class KeyValueBytes(Protocol):
    """A key-value store of bytes. Below it are other layers, and a RowMap in the end."""

    def get(self, key: bytes, /) -> bytes | None: ...

    def put(self, key: bytes, value: bytes | None, /) -> None: ...

    def items(
        self, low: bytes | None = None, high: bytes | None = None, with_high: bool = True, reverse: bool = False
    ) -> Rows: ...

    def __len__(self) -> int: ...


class LoggedKeyValue:
    """Writes each change to the changelog; with `logs_headers`, together with the headers of its record."""

    __slots__ = ("_below", "_changed", "_logs_headers", "_name", "_task", "_timestamped", "get", "items")

    def __init__(
        self,
        name: str,
        below: KeyValueBytes,
        task: TaskState,
        changed: Changed,
        timestamped: bool,
        logs_headers: bool = False,
    ) -> None:
        self._name = name
        self._below = below
        self._task = task
        self._changed = changed
        self._timestamped = timestamped
        self._logs_headers = logs_headers
        self.get = below.get
        self.items = below.items

    def put(self, key: bytes, value: bytes | None) -> None:
        self._below.put(key, value)
        headers = self._task.headers if self._logs_headers else NO_HEADERS
        if value is not None and self._timestamped:
            self._changed(self._name, key, value[8:], unpack_long(value)[0], headers)
        else:
            self._changed(self._name, key, value, self._task.timestamp, headers)

    def __len__(self) -> int:
        return len(self._below)


class KeyValueStore:
    """A key-value store as processors and users see it."""

    def __init__(self, bound: Bound, bytes_below: RowMap, layers: KeyValueBytes, timestamped: bool) -> None:
        self.name = bound.store
        self._bound = bound
        self._bytes = bytes_below
        self._layers = layers
        self._timestamped = timestamped
        self._key = bound.key
        self._value_of = bound.value_of
        self._get = layers.get
        self._put = layers.put

    def get(self, key: Any) -> Any:
        """The value, or None."""
        return self._value_of(self._get(self._key(key)))

    def peek(self, key: Any) -> Any:
        """As `get`, for a reader outside of the task: no row leaves the cache because of it."""
        layers = self._layers
        read = layers.peek if isinstance(layers, KeyRows) else layers.get
        return self._value_of(read(self._key(key)))

    def below(self) -> KeyValueStore:
        """The rows below the cache, to be read only."""
        return KeyValueStore(self._bound, self._bytes, self._bytes, self._timestamped)

    def put(self, key: Any, value: Any) -> None:
        """Set the value of a key; None deletes the row."""
        self._put(self._key(key), self._bound.value(value))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set the value of a key without one. Returns the previous value, or None."""
        data = self._key(key)
        previous = self._get(data)
        if previous is None:
            self._put(data, self._bound.value(value))
        return self._value_of(previous)

    def put_all(self, rows: Iterable[tuple[Any, Any]]) -> None:
        for data, value in [(self._key(key), self._bound.value(value)) for key, value in rows]:
            self._put(data, value)

    def delete(self, key: Any) -> Any:
        """Delete a row. Returns the previous value, or None."""
        data = self._key(key)
        previous = self._get(data)
        self._put(data, None)
        return self._value_of(previous)

    def _rows(self, rows: Rows) -> Iterator[KeyValue]:
        key_of, value_of = self._bound.key_of, self._value_of
        return (KeyValue(key_of(key), value_of(value)) for key, value in rows)

    def range(self, low: Any, high: Any) -> Iterator[KeyValue]:
        """Rows from `low` to `high`, both included, in the order of their bytes; None: no bound."""
        bound = self._bound.bound_key
        return self._rows(self._layers.items(bound(low), bound(high)))

    def reverse_range(self, low: Any, high: Any) -> Iterator[KeyValue]:
        bound = self._bound.bound_key
        return self._rows(self._layers.items(bound(low), bound(high), True, True))

    def all(self) -> Iterator[KeyValue]:
        return self._rows(self._layers.items())

    def reverse_all(self) -> Iterator[KeyValue]:
        return self._rows(self._layers.items(reverse=True))

    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[KeyValue]:
        """Rows whose serialized key begins with the serialized prefix.

        Raises ValueError: the prefix is None.
        """
        low = serde.serialize("", prefix)
        if low is None:
            raise ValueError(f"a prefix of store {self.name} is None")
        return self._rows(self._layers.items(low, next_prefix(low), False))

    def page(
        self, low: bytes | None, high: bytes | None, *, with_high: bool = True, reverse: bool = False, limit: int
    ) -> tuple[list[KeyValue], bytes | None]:
        """At most `limit` rows of serialized keys from `low` to `high`, and the serialized key of the last of them if
        there are more.
        """
        found: list[KeyValue] = []
        last: bytes | None = None
        for key, value in self._layers.items(low, high, with_high, reverse):
            if len(found) == limit:
                return found, last
            found.append(KeyValue(self._bound.key_of(key), self._value_of(value)))
            last = key
        return found, None

    def approximate_num_entries(self) -> int:
        """Rows below the cache."""
        return self._bytes.estimate()

    def set_flush_listener(self, listener: Listener, send_old_values: bool) -> bool:
        """Pass a Record of Change when a row leaves the cache. False: the store has no cache.

        A change of a timestamped store has plain values, and the record has the timestamp of the new value.
        """
        layers = self._layers
        if not isinstance(layers, KeyRows):
            return False
        layers.listener = KeyListener(self._bound.key_of, self._value_of, self._timestamped, listener)
        layers.send_old_values = send_old_values
        return True

    def flush(self) -> None:
        """Write the cached rows, and pass their changes on."""
        if isinstance(self._layers, KeyRows):
            self._layers.flush()

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog."""
        self._bytes.put(key, to_timestamped(value, timestamp) if self._timestamped else value)

    @property
    def restores_timestamps(self) -> bool:
        """Whether values of `restore_rows` have their timestamps before them."""
        return self._timestamped

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        """Take rows of the changelog, the last one of each key."""
        self._bytes.put_all(rows)

    def entries(self) -> Rows:
        """The rows as bytes, without the cache."""
        return self._bytes.items()


class TimestampedKeyValueStore(KeyValueStore):
    """A store whose values are ValueAndTimestamp."""

    def direct(self) -> tuple[KeyWriter, TimestampedReader, TimestampedWriter, KeyRows] | None:
        """The parts of a store with a cache, for a processor that updates single rows often; None: it has no cache, or
        its calls are measured.
        """
        bound, rows = self._bound, self._layers
        if not isinstance(rows, KeyRows) or "get" in vars(self) or "put" in vars(self):
            return None
        read, write = bound.value_of, bound.value
        if not isinstance(read, TimestampedReader) or not isinstance(write, TimestampedWriter):
            return None
        return bound.key, read, write, rows

    def get_with_binary(self, key: Any) -> tuple[ValueAndTimestamp | None, bytes | None]:
        """The value, and its bytes for `put_if_different_values`."""
        data = self._get(self._key(key))
        return self._value_of(data), data

    def put_if_different_values(self, key: Any, value: ValueAndTimestamp, old: bytes | None) -> bool:
        """Put a value unless its bytes are those of `old` and it is not older (KIP-557). True: it was put."""
        new = self._bound.value(value)
        if new is None or old is None:
            same = new is old
        else:
            same = new[8:] == old[8:] and unpack_long(new)[0] > unpack_long(old)[0]
        if same:
            return False
        self._put(self._key(key), new)
        return True

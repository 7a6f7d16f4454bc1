"""A window store as processors and users see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from broker_streams.kernel.stores.bound import Bound, Listener, to_timestamped
from broker_streams.kernel.stores.keys import MAX_LONG, WINDOW_SUFFIX_BYTES, unpack_long, window_end, window_parts
from broker_streams.kernel.stores.row_formats import KeyWriter, TimestampedReader, TimestampedWriter
from broker_streams.kernel.stores.segments import Rows
from broker_streams.kernel.stores.window_cache import CachingWindows
from broker_streams.kernel.stores.window_rows import WindowListener, WindowRows
from broker_streams.kernel.stores.windows import LoggedWindows, WindowBytes, WindowRoot
from broker_streams.records import NO_HEADERS, Headers, Window, Windowed


class WindowStore:
    """Values by key and start of a window. Times are in ms; both bounds of a range belong to it.

    A row is shown as long as the retention of the store reaches, seen from the latest time that the store was given.
    """

    def __init__(self, bound: Bound, root: WindowRoot, layers: WindowBytes, window_ms: int, timestamped: bool) -> None:
        self.name = bound.store
        self.window_ms = window_ms
        self._bound = bound
        self._root = root
        self._layers = layers
        self._timestamped = timestamped
        self._key = bound.key
        self._value_of = bound.value_of
        self._value = bound.value
        self._fetch = layers.fetch
        self._put = layers.put

    def below(self) -> WindowStore:
        """The rows below the cache, to be read only. The cache may have rows beyond the retention, too."""
        return WindowStore(self._bound, self._root, self._root, self.window_ms, self._timestamped)

    def direct(self) -> tuple[KeyWriter, TimestampedReader, TimestampedWriter, WindowRows] | None:
        """The parts of a store that caches values with timestamps, for a processor that updates single rows often;
        None: it is another one, or its calls are measured.
        """
        key, read, write, rows = self._key, self._value_of, self._value, self._layers
        if not isinstance(rows, WindowRows) or "fetch" in vars(self) or "put" in vars(self):
            return None
        if not isinstance(read, TimestampedReader) or not isinstance(write, TimestampedWriter):
            return None
        return key, read, write, rows

    def put(self, key: Any, value: Any, start_ms: int) -> None:
        """Set the value of a window; None deletes the row. A row that is too old is counted as dropped."""
        self._put(self._key(key), self._value(value), start_ms)

    def fetch(self, key: Any, start_ms: int) -> Any:
        """The value of a window, or None."""
        return self._value_of(self._fetch(self._key(key), start_ms))

    def _values(self, rows: Rows) -> Iterator[tuple[int, Any]]:
        value_of = self._value_of
        return ((unpack_long(data, len(data) - WINDOW_SUFFIX_BYTES)[0], value_of(value)) for data, value in rows)

    def fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        """Starts and values of the windows of a key, in the order of time."""
        return self._values(self._layers.rows_of(self._key(key), from_ms, to_ms, False))

    def backward_fetch_range(self, key: Any, from_ms: int, to_ms: int) -> Iterator[tuple[int, Any]]:
        return self._values(self._layers.rows_of(self._key(key), from_ms, to_ms, True))

    def _windowed(self, data: bytes) -> Windowed:
        key, start_ms, _ = window_parts(data)
        return Windowed(self._bound.key_of(key), Window(start_ms, window_end(start_ms, self.window_ms)))

    def _rows(self, rows: Rows) -> Iterator[tuple[Windowed, Any]]:
        value_of = self._value_of
        return ((self._windowed(data), value_of(value)) for data, value in rows)

    def _fetch_keys(
        self, low: Any, high: Any, from_ms: int, to_ms: int, reverse: bool
    ) -> Iterator[tuple[Windowed, Any]]:
        first, last = self._bound.bound_key(low), self._bound.bound_key(high)
        if first is not None and last is not None and first > last:
            return iter(())
        return self._rows(self._layers.rows(first, last, from_ms, to_ms, reverse))

    def fetch_keys(self, low: Any, high: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """Windows of keys from `low` to `high`; None: no bound."""
        return self._fetch_keys(low, high, from_ms, to_ms, False)

    def backward_fetch_keys(self, low: Any, high: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._fetch_keys(low, high, from_ms, to_ms, True)

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return self._rows(self._layers.rows_by_time(0, MAX_LONG, False))

    def backward_all(self) -> Iterator[tuple[Windowed, Any]]:
        return self._rows(self._layers.rows_by_time(0, MAX_LONG, True))

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._rows(self._layers.rows_by_time(from_ms, to_ms, False))

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._rows(self._layers.rows_by_time(from_ms, to_ms, True))

    def set_flush_listener(self, listener: Listener, send_old_values: bool) -> bool:
        """Pass a Record of Change under a Windowed key when a row leaves the cache. False: the store has no cache.

        A change of a timestamped store has plain values, and the record has the timestamp of the new value.
        """
        layers = self._layers
        if not isinstance(layers, CachingWindows):
            return False
        layers.listener = WindowListener(
            self._bound.key_of, self._value_of, self.window_ms, self._timestamped, listener
        )
        layers.send_old_values = send_old_values
        return True

    def flush(self) -> None:
        """Write the cached rows, and pass their changes on."""
        if isinstance(self._layers, CachingWindows):
            self._layers.flush()

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog."""
        self._root.restore(key, to_timestamped(value, timestamp) if self._timestamped else value)
        layers = self._layers
        if isinstance(layers, LoggedWindows):
            layers.sequence = max(layers.sequence, window_parts(key)[2])

    @property
    def restores_timestamps(self) -> bool:
        """Whether values of `restore_rows` have their timestamps before them."""
        return self._timestamped

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        """Take rows of the changelog, the last one of each key."""
        if rows:
            last = self._root.restore_rows(rows)
            layers = self._layers
            if isinstance(layers, LoggedWindows):
                layers.sequence = max(layers.sequence, last)

    def approximate_num_entries(self) -> int:
        """Rows below the cache; some of them may be too old to be shown."""
        return self._root.count_rows()

    def entries(self) -> Rows:
        """The rows that the store shows, as bytes under their keys in the changelog, without the cache."""
        return self._root.rows(None, None, 0, MAX_LONG, False)

"""A session store as processors and users see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from broker_streams.kernel.stores.bound import Bound, Listener
from broker_streams.kernel.stores.cache import Entry
from broker_streams.kernel.stores.keys import MAX_LONG, session_parts
from broker_streams.kernel.stores.segments import Rows
from broker_streams.kernel.stores.sessions import CachingSessions, SessionBytes, SessionRoot
from broker_streams.records import NO_HEADERS, Change, Headers, Record, Window, Windowed

Sessions = Iterator[tuple[Windowed, Any]]


class SessionStore:
    """Values by key and session: Windowed with the times of the first and the last record of the session in ms.

    A row is shown as long as the retention of the store reaches, seen from the latest end that the store was given.
    """

    def __init__(self, bound: Bound, root: SessionRoot, layers: SessionBytes) -> None:
        self.name = bound.store
        self._bound = bound
        self._root = root
        self._layers = layers
        self._key = bound.key
        self._value_of = bound.value_of

    def below(self) -> SessionStore:
        """The rows below the cache, to be read only. The cache may have rows beyond the retention, too."""
        return SessionStore(self._bound, self._root, self._root)

    def put(self, session: Windowed, value: Any) -> None:
        """Set the value of a session; None deletes the row. A row that is too old is counted as dropped."""
        key, (start_ms, end_ms) = session
        self._layers.put(self._key(key), start_ms, end_ms, self._bound.value(value))

    def remove(self, session: Windowed) -> None:
        key, (start_ms, end_ms) = session
        self._layers.remove(self._key(key), start_ms, end_ms)

    def fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        """The value of a session, or None."""
        return self._value_of(self._layers.fetch(self._key(key), start_ms, end_ms))

    def _windowed(self, data: bytes) -> Windowed:
        key, start_ms, end_ms = session_parts(data)
        return Windowed(self._bound.key_of(key), Window(start_ms, end_ms))

    def _rows(self, rows: Rows) -> Sessions:
        value_of = self._value_of
        return ((self._windowed(data), value_of(value)) for data, value in rows)

    def find_sessions(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> Sessions:
        """Sessions of a key that overlap the times from `earliest_end_ms` to `latest_start_ms`, in their order."""
        return self._rows(self._layers.find_of(self._key(key), earliest_end_ms, latest_start_ms, False))

    def backward_find_sessions(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> Sessions:
        return self._rows(self._layers.find_of(self._key(key), earliest_end_ms, latest_start_ms, True))

    def _of_keys(self, low: Any, high: Any, earliest_end_ms: int, latest_start_ms: int, reverse: bool) -> Sessions:
        first, last = self._bound.bound_key(low), self._bound.bound_key(high)
        if first is not None and last is not None and first > last:
            return iter(())
        return self._rows(self._layers.find(first, last, earliest_end_ms, latest_start_ms, reverse))

    def find_sessions_of_keys(self, low: Any, high: Any, earliest_end_ms: int, latest_start_ms: int) -> Sessions:
        """Sessions of keys from `low` to `high`; None: no bound."""
        return self._of_keys(low, high, earliest_end_ms, latest_start_ms, False)

    def backward_find_sessions_of_keys(
        self, low: Any, high: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> Sessions:
        return self._of_keys(low, high, earliest_end_ms, latest_start_ms, True)

    def find_sessions_by_end(self, earliest_end_ms: int, latest_end_ms: int) -> Sessions:
        """Sessions of all keys that end at these times, in the order of time.

        Raises NotImplementedError: the store is persistent, and its sessions are not emitted when they close.
        """
        return self._rows(self._layers.find_ended(earliest_end_ms, latest_end_ms))

    def fetch(self, key: Any) -> Sessions:
        """All sessions of a key."""
        return self.find_sessions(key, 0, MAX_LONG)

    def backward_fetch(self, key: Any) -> Sessions:
        return self.backward_find_sessions(key, 0, MAX_LONG)

    def fetch_keys(self, low: Any, high: Any) -> Sessions:
        return self.find_sessions_of_keys(low, high, 0, MAX_LONG)

    def backward_fetch_keys(self, low: Any, high: Any) -> Sessions:
        return self.backward_find_sessions_of_keys(low, high, 0, MAX_LONG)

    def set_flush_listener(self, listener: Listener, send_old_values: bool) -> bool:
        """Pass a Record of Change under a Windowed key when a row leaves the cache. False: the store has no cache.

        The record has the time of the session's end.
        """
        layers = self._layers
        if not isinstance(layers, CachingSessions):
            return False
        value_of = self._value_of

        def pass_on(data: bytes, new: bytes | None, old: bytes | None, entry: Entry) -> None:
            session = self._windowed(data)
            change = Change(value_of(new), value_of(old))
            listener(Record(session, change, session.window.end_ms, entry.headers))

        layers.listener = pass_on
        layers.send_old_values = send_old_values
        return True

    def flush(self) -> None:
        """Write the cached rows, and pass their changes on."""
        if isinstance(self._layers, CachingSessions):
            self._layers.flush()

    def restore(self, key: bytes, value: bytes | None, timestamp: int, headers: Headers = NO_HEADERS) -> None:
        """Take a record of the changelog."""
        self._root.restore(key, value)

    restores_timestamps: Final = False

    def restore_rows(self, rows: dict[bytes, bytes | None]) -> None:
        """Take rows of the changelog, the last one of each key."""
        if rows:
            self._root.restore_rows(rows)

    def approximate_num_entries(self) -> int:
        """Rows below the cache; some of them may be too old to be shown."""
        return self._root.count_rows()

    def entries(self) -> Rows:
        """The rows that the store shows, as bytes under their keys in the changelog, without the cache."""
        return self._root.find(None, None, 0, MAX_LONG, False)

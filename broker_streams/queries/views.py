"""Read-only views of a store over its partitions in one instance (Kafka's ReadOnlyKeyValueStore and its siblings).

A view of several partitions looks for a key in one after the other, and shows the rows of one partition after those of
another. Reading changes nothing: no row leaves a cache because of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any, Final

from broker_streams.plan.stores import Store, StoreKind
from broker_streams.records import KeyValue, VersionedRecord, Windowed
from broker_streams.serdes import Serde

MAX_MS: Final = (1 << 63) - 1


class StoreUnavailable(LookupError):
    """The store, or the part that was asked for, is not at this instance now (Kafka's InvalidStateStoreException)."""


# The parts of a store that may be read now, by partition. Raises StoreUnavailable.
Parts = Callable[[], Mapping[int, Any]]


class View:
    """Parts are looked up at each call: a view stays good while tasks come and go."""

    def __init__(self, store: Store, parts: Parts) -> None:
        self.name, self.kind = store.name, store.kind
        self._parts = parts

    def _each(self) -> list[Any]:
        return list(self._parts().values())

    def _first(self, call: str, *arguments: Any) -> Any:
        return next((found for each in self._each() if (found := getattr(each, call)(*arguments)) is not None), None)

    def _all(self, call: str, *arguments: Any) -> Iterator[Any]:
        return chain.from_iterable([getattr(each, call)(*arguments) for each in self._each()])

    def approximate_num_entries(self) -> int:
        return sum(each.approximate_num_entries() for each in self._each())


class KeyValueView(View):
    """Values of a timestamped store are ValueAndTimestamp."""

    def get(self, key: Any) -> Any:
        """The value, or None."""
        return self._first("peek", key)

    def range(self, low: Any, high: Any) -> Iterator[KeyValue]:
        """Rows from `low` to `high`, both included, in the order of their bytes; None: no bound."""
        return self._all("range", low, high)

    def reverse_range(self, low: Any, high: Any) -> Iterator[KeyValue]:
        return self._all("reverse_range", low, high)

    def all(self) -> Iterator[KeyValue]:
        return self._all("all")

    def reverse_all(self) -> Iterator[KeyValue]:
        return self._all("reverse_all")

    def prefix_scan(self, prefix: Any, serde: Serde) -> Iterator[KeyValue]:
        """Rows whose serialized key begins with the serialized prefix."""
        return self._all("prefix_scan", prefix, serde)


class WindowView(View):
    """Times are starts of windows in ms, both bounds included."""

    def fetch(self, key: Any, start_ms: int) -> Any:
        """The value of a window, or None."""
        return self._first("fetch", key, start_ms)

    def fetch_range(self, key: Any, from_ms: int = 0, to_ms: int = MAX_MS) -> Iterator[tuple[int, Any]]:
        """Starts and values of the windows of a key, in the order of time."""
        return self._all("fetch_range", key, from_ms, to_ms)

    def backward_fetch_range(self, key: Any, from_ms: int = 0, to_ms: int = MAX_MS) -> Iterator[tuple[int, Any]]:
        return self._all("backward_fetch_range", key, from_ms, to_ms)

    def fetch_keys(self, low: Any, high: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """Windows of keys from `low` to `high`; None: no bound."""
        return self._all("fetch_keys", low, high, from_ms, to_ms)

    def backward_fetch_keys(self, low: Any, high: Any, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._all("backward_fetch_keys", low, high, from_ms, to_ms)

    def fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._all("fetch_all", from_ms, to_ms)

    def backward_fetch_all(self, from_ms: int, to_ms: int) -> Iterator[tuple[Windowed, Any]]:
        return self._all("backward_fetch_all", from_ms, to_ms)

    def all(self) -> Iterator[tuple[Windowed, Any]]:
        return self._all("all")

    def backward_all(self) -> Iterator[tuple[Windowed, Any]]:
        return self._all("backward_all")


class SessionView(View):
    """Rows are Windowed keys with their values."""

    def fetch(self, key: Any) -> Iterator[tuple[Windowed, Any]]:
        """All sessions of a key."""
        return self._all("fetch", key)

    def backward_fetch(self, key: Any) -> Iterator[tuple[Windowed, Any]]:
        return self._all("backward_fetch", key)

    def fetch_keys(self, low: Any, high: Any) -> Iterator[tuple[Windowed, Any]]:
        """Sessions of keys from `low` to `high`; None: no bound."""
        return self._all("fetch_keys", low, high)

    def backward_fetch_keys(self, low: Any, high: Any) -> Iterator[tuple[Windowed, Any]]:
        return self._all("backward_fetch_keys", low, high)

    def fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        """The value of a session, or None."""
        return self._first("fetch_session", key, start_ms, end_ms)

    def find_sessions(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> Iterator[tuple[Windowed, Any]]:
        """Sessions of a key that overlap these times."""
        return self._all("find_sessions", key, earliest_end_ms, latest_start_ms)

    def backward_find_sessions(
        self, key: Any, earliest_end_ms: int, latest_start_ms: int
    ) -> Iterator[tuple[Windowed, Any]]:
        return self._all("backward_find_sessions", key, earliest_end_ms, latest_start_ms)


class VersionedView(View):
    def get(self, key: Any) -> VersionedRecord | None:
        """The latest record, or None."""
        found: VersionedRecord | None = self._first("get", key)
        return found

    def get_as_of(self, key: Any, timestamp: int) -> VersionedRecord | None:
        """The record that was valid at a time, or None."""
        found: VersionedRecord | None = self._first("get_as_of", key, timestamp)
        return found

    def get_range(self, key: Any, from_ms: int, to_ms: int, ascending: bool = False) -> Iterator[VersionedRecord]:
        """The records that were valid within these times, the latest first, or last if `ascending`."""
        return self._all("get_range", key, from_ms, to_ms, ascending)


_VIEWS: Final[Mapping[StoreKind, type[View]]] = {
    StoreKind.KEY_VALUE: KeyValueView,
    StoreKind.TIMESTAMPED_KEY_VALUE: KeyValueView,
    StoreKind.WINDOW: WindowView,
    StoreKind.TIMESTAMPED_WINDOW: WindowView,
    StoreKind.SESSION: SessionView,
    StoreKind.VERSIONED_KEY_VALUE: VersionedView,
}


def view_of(store: Store, parts: Parts) -> View:
    """Raises StoreUnavailable: buffers of operators cannot be read."""
    made = _VIEWS.get(store.kind)
    if made is None:
        allowed = ", ".join(kind.value for kind in _VIEWS)
        raise StoreUnavailable(f"store {store.name} is a {store.kind.value}; stores that can be read are {allowed}")
    return made(store, parts)

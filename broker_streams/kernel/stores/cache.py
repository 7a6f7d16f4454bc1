"""The cache of a task: it keeps back changes of rows until a commit, or until it is full.

The order in which changes leave the cache decides the order of results, so it is Kafka's (ThreadCache, NamedCache):
- a commit writes the changed rows of a store in the order of their last change;
- a put beyond the bound evicts the row of the same store that was not used for the longest time; if that row was
  changed, it is written first, and all other changed rows of the store after it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from broker_streams.kernel.processor import TaskState
from broker_streams.kernel.stores.ordered import OrderedKeys
from broker_streams.records import NO_HEADERS, Headers, RecordMetadata

# Kafka's estimate of an entry: three references of a list node, a flag, timestamp, offset and partition.
ENTRY_BYTES: Final = 24 + 1 + 20


class Entry(NamedTuple):
    """A row and the record that wrote it. A row that was read has no such record; its timestamp is -1."""

    value: bytes | None
    size_bytes: int
    timestamp: int
    headers: Headers
    metadata: RecordMetadata | None


Flush = Callable[[bytes, Entry], None]
# Makes a named tuple from a tuple in half the time of its class: one for each record.
_new_tuple: Any = tuple.__new__


class Cache:
    """The rows that all stores of a task keep back: at most `max_bytes` by Kafka's estimate."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.size_bytes = 0


def _headers_bytes(headers: Headers) -> int:
    # Java counts UTF-16 units of a name.
    return sum(len(name.encode("utf-16-le")) // 2 + len(value or b"") for name, value in headers)


class StoreCache:
    """The rows of one store. `flush_entry` writes a changed row to the store below and passes the change on."""

    __slots__ = ("_cache", "_dirty", "_entries", "_flush_entry", "_keys", "_task")

    def __init__(self, cache: Cache, task: TaskState, flush_entry: Flush) -> None:
        self._cache = cache
        self._task = task
        self._flush_entry = flush_entry
        # The row that was used last is the last one.
        self._entries: OrderedDict[bytes, Entry] = OrderedDict()
        # Changed rows in the order of their last change.
        self._dirty: dict[bytes, None] = {}
        self._keys = OrderedKeys()

    def get(self, key: bytes) -> Entry | None:
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: bytes, value: bytes | None) -> None:
        """Keep a change of the record that is processed now. None: the row was deleted."""
        task = self._task
        metadata = task.metadata
        headers = task.headers
        size_bytes = ENTRY_BYTES + len(key)
        if value is not None:
            size_bytes += len(value)
        if metadata is not None:
            size_bytes += len(metadata.topic)
        if headers:
            size_bytes += _headers_bytes(headers)
        dirty = self._dirty
        if key in dirty:
            del dirty[key]
        dirty[key] = None
        self._set(key, _new_tuple(Entry, (value, size_bytes, task.timestamp, headers, metadata)))

    def put_read(self, key: bytes, value: bytes) -> None:
        """Keep a row that was read from the store below."""
        self._set(key, Entry(value, ENTRY_BYTES + len(key) + len(value), -1, NO_HEADERS, None))

    def _set(self, key: bytes, entry: Entry) -> None:
        cache = self._cache
        entries = self._entries
        previous = entries.get(key)
        entries[key] = entry
        if previous is None:
            self._keys.add(key)
            cache.size_bytes += entry[1]
        else:
            entries.move_to_end(key)
            cache.size_bytes += entry[1] - previous[1]
        while cache.size_bytes > cache.max_bytes and entries:
            self._evict()

    def _evict(self) -> None:
        key, entry = self._entries.popitem(last=False)
        self._keys.remove(key)
        self._cache.size_bytes -= entry.size_bytes
        if key in self._dirty:
            del self._dirty[key]
            self._flush((key, entry))

    def flush(self) -> None:
        """Write all changed rows."""
        if self._dirty:
            self._flush(None)

    def _flush(self, evicted: tuple[bytes, Entry] | None) -> None:
        entries = self._entries
        changed = [] if evicted is None else [evicted]
        changed += [(key, entries[key]) for key in self._dirty]
        self._dirty.clear()
        task = self._task
        timestamp, headers, metadata = task.timestamp, task.headers, task.metadata
        flush_entry = self._flush_entry
        try:
            for key, entry in changed:
                task.timestamp, task.headers, task.metadata = entry.timestamp, entry.headers, entry.metadata
                flush_entry(key, entry)
        finally:
            task.timestamp, task.headers, task.metadata = timestamp, headers, metadata
        for key, entry in changed:
            if entry.value is None:
                self._delete(key, entry)

    def _delete(self, key: bytes, entry: Entry) -> None:
        """Forget a deleted row, unless it was evicted or a listener wrote it again meanwhile."""
        if self._entries.get(key) is entry:
            del self._entries[key]
            self._keys.remove(key)
            self._cache.size_bytes -= entry.size_bytes

    def items(
        self,
        low: bytes | None = None,
        high: bytes | None = None,
        with_high: bool = True,
        reverse: bool = False,
    ) -> Iterator[tuple[bytes, bytes | None]]:
        """Rows from `low` to `high`; None as a value: the row was deleted. A row that is evicted meanwhile is left out.

        Each row counts as used, as it does for Kafka.
        """
        for key in self._keys.between(low, high, with_high, reverse):
            entry = self.get(key)
            if entry is not None:
                yield key, entry.value

    def first_from(self, low: bytes) -> bytes | None:
        return self._keys.first_from(low)

    def last_below(self, high: bytes) -> bytes | None:
        return self._keys.last_below(high)

    def clear(self) -> None:
        """Forget all rows, changed ones too."""
        self._cache.size_bytes -= sum(entry.size_bytes for entry in self._entries.values())
        self._entries.clear()
        self._dirty.clear()
        self._keys.clear()

    def __len__(self) -> int:
        return len(self._entries)

"""The cached rows of a key-value store, as each record uses them."""

from broker_streams.kernel.forward cimport Forward, Moment, as_forward
from broker_streams.kernel.stores.cache cimport Cache, Entry, StoreCache
from broker_streams.kernel.stores.row_formats cimport Reader
from broker_streams.record cimport new_record

from broker_streams.kernel.stores.merge import merged
from broker_streams.records import Change

# Makes a named tuple from a tuple in half the time of its class.
cdef object new_tuple = tuple.__new__


def same(key):
    return key


cdef class KeyRows:
    """Keeps changes back. `_cache` is what Python calls: a wrapper may count its calls."""

    def __init__(self, below, Cache cache not None, Moment task not None):
        self._below = below
        self.rows = self._cache = StoreCache(cache, task, self.flush_entry)

    cdef object row(self, bytes key):
        cdef Entry entry = self.rows.get(key)
        if entry is not None:
            return entry.value
        value = self._below.get(key)
        if value is not None:
            self.rows.put_read(key, value)
        return value

    cdef int keep(self, bytes key, object value) except -1:
        return self.rows.put(key, value)

    def get(self, bytes key not None):
        entry = self._cache.get(key)
        if entry is not None:
            return entry.value
        value = self._below.get(key)
        if value is not None:
            self._cache.put_read(key, value)
        return value

    def peek(self, bytes key not None):
        """As `get`, for a reader outside of the task: nothing enters the cache, so no row leaves it."""
        entry = self._cache.get(key)
        return self._below.get(key) if entry is None else entry.value

    def put(self, bytes key not None, value):
        self._cache.put(key, value)

    def items(self, low=None, high=None, with_high=True, reverse=False):
        stored = self._below.items(low, high, with_high, reverse)
        return merged(self._cache.items(low, high, with_high, reverse), stored, same, reverse)

    cpdef object flush_entry(self, bytes key, Entry entry):
        new, listener = entry.value, self.listener
        if listener is None:
            self._below.put(key, new)
            return None
        old = self._below.get(key) if new is None or self.send_old_values else None
        # A row that came and went between two commits leaves no trace.
        if new is not None or old is not None:
            self._below.put(key, new)
            listener(key, new, old if self.send_old_values else None, entry)
        return None

    def flush(self):
        self._cache.flush()

    def __len__(self):
        return len(self._below)


cdef class KeyListener:
    """Makes a Record of Change of a row that leaves the cache.

    With `timestamped`, values are ValueAndTimestamp: the change has plain values, and the record the timestamp of the
    new one.
    """

    cdef Reader key_of
    cdef object value_of
    cdef bint timestamped
    cdef Forward forward

    def __init__(self, Reader key_of not None, value_of, bint timestamped, forward):
        self.key_of = key_of
        self.value_of = value_of
        self.timestamped = timestamped
        self.forward = as_forward(forward)

    def __call__(self, bytes key not None, new, old, Entry entry not None):
        value, previous, timestamp = self.value_of(new), self.value_of(old), entry.timestamp
        if self.timestamped:
            if value is not None:
                value, timestamp = value
            if previous is not None:
                previous = previous[0]
        change = new_tuple(Change, (value, previous, True))
        self.forward.take(new_record(self.key_of.read(key), change, timestamp, entry.headers))

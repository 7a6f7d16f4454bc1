"""The cached rows of a window store, as each record uses them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcpy, memset

from broker_cy.core.cursor cimport load_u64
from broker_cy.core.writer cimport store_u64
from broker_streams.kernel.forward cimport Forward, Moment, as_forward
from broker_streams.kernel.stores.cache cimport Cache, Entry, StoreCache
from broker_streams.kernel.stores.row_formats cimport Reader
from broker_streams.record cimport new_record

from broker_streams.records import Change, Window, Windowed

cdef enum:
    LONG_BYTES = 8
    SEQUENCE_BYTES = 4
    # The segment, and start and sequence of the window; a key by time has one byte more.
    ADDED_BYTES = 2 * LONG_BYTES + SEQUENCE_BYTES


cdef long long MAX_MS = 0x7FFFFFFFFFFFFFFF
# Makes a named tuple from a tuple in half the time of its class.
cdef object new_tuple = tuple.__new__


cdef class WindowRows:
    """The layouts of keys are those of keys.pyx. `_cache` is what Python calls: a wrapper may count its calls."""

    def __init__(self, below, Cache cache not None, Moment task not None, long long interval_ms, bint by_time):
        self._below = below
        self.rows = self._cache = StoreCache(cache, task, self.flush_entry)
        self.interval_ms = interval_ms
        self.by_time = by_time
        self.latest_ms = -1

    cdef bytes cache_key(self, bytes key, long long start_ms):
        # The quotient is rounded toward zero, as in Java and in C.
        cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
        cdef bytes made = PyBytes_FromStringAndSize(NULL, ADDED_BYTES + size + self.by_time)
        cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(made)
        store_u64(p, <uint64_t>(start_ms // self.interval_ms))
        p += LONG_BYTES
        if self.by_time:
            p[0] = 0
            store_u64(p + 1, <uint64_t>start_ms)
            memcpy(p + 1 + LONG_BYTES, PyBytes_AS_STRING(key), <size_t>size)
            memset(p + 1 + LONG_BYTES + size, 0, SEQUENCE_BYTES)
        else:
            memcpy(p, PyBytes_AS_STRING(key), <size_t>size)
            store_u64(p + size, <uint64_t>start_ms)
            memset(p + size + LONG_BYTES, 0, SEQUENCE_BYTES)
        return made

    cdef object row(self, bytes key, bytes cache_key, long long start_ms):
        cdef Entry entry = self.rows.get(cache_key)
        return self._below.fetch(key, start_ms) if entry is None else entry.value

    cdef int keep(self, bytes cache_key, object value, long long start_ms) except -1:
        self.rows.put(cache_key, value)
        if start_ms > self.latest_ms:
            self.latest_ms = start_ms
        return 0

    cpdef object flush_entry(self, bytes cache_key, Entry entry):
        # The key without the segment: KEY, start, sequence; or 0, start, KEY, sequence.
        cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(cache_key) + LONG_BYTES
        cdef Py_ssize_t size = PyBytes_GET_SIZE(cache_key) - ADDED_BYTES - self.by_time
        cdef bytes key
        cdef long long start_ms
        if size < 0:
            raise ValueError(f"a key in the cache of a window store has {len(cache_key)} bytes")
        if self.by_time:
            start_ms = <long long>load_u64(p + 1)
            p += 1 + LONG_BYTES
        else:
            start_ms = <long long>load_u64(p + size)
        key = PyBytes_FromStringAndSize(<const char*>p, size)
        new = entry.value
        if self.listener is None:
            self._below.put(key, new, start_ms)
            return None
        old = self._below.fetch(key, start_ms) if new is None or self.send_old_values else None
        if new is not None or old is not None:
            self._below.put(key, new, start_ms)
            self.listener(key, start_ms, new, old if self.send_old_values else None, entry)
        return None

    def fetch(self, bytes key not None, long long start_ms):
        entry = self._cache.get(self.cache_key(key, start_ms))
        return self._below.fetch(key, start_ms) if entry is None else entry.value

    def put(self, bytes key not None, value, long long start_ms):
        self._cache.put(self.cache_key(key, start_ms), value)
        if start_ms > self.latest_ms:
            self.latest_ms = start_ms


cdef class WindowListener:
    """Makes a Record of Change under a Windowed key of a row that leaves the cache.

    With `timestamped`, values are ValueAndTimestamp: the change has plain values, and the record the timestamp of the
    new one.
    """

    cdef Reader key_of
    cdef object value_of
    cdef long long window_ms
    cdef bint timestamped
    cdef Forward forward

    def __init__(self, Reader key_of not None, value_of, long long window_ms, bint timestamped, forward):
        self.key_of = key_of
        self.value_of = value_of
        self.window_ms = window_ms
        self.timestamped = timestamped
        self.forward = as_forward(forward)

    def __call__(self, bytes key not None, long long start_ms, new, old, Entry entry not None):
        cdef long long end_ms = start_ms + self.window_ms if start_ms <= MAX_MS - self.window_ms else MAX_MS
        value = self.value_of(new)
        previous = self.value_of(old)
        timestamp = entry.timestamp
        if self.timestamped:
            if value is not None:
                value, timestamp = value
            if previous is not None:
                previous = previous[0]
        windowed = new_tuple(Windowed, (self.key_of.read(key), new_tuple(Window, (start_ms, end_ms))))
        self.forward.take(new_record(windowed, new_tuple(Change, (value, previous, True)), timestamp, entry.headers))

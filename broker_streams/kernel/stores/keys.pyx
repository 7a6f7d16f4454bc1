"""Layouts of the keys of stores and changelogs, as Kafka Streams 4.3.1 writes them.

All integers are big-endian. KEY is the serialized key of the user.

    window             KEY, start_ms int64, sequence int32      store and changelog; sequence 0 without duplicates
    time-first window  0 int8, start_ms int64, KEY, sequence    the order of a store that emits when windows close
    key-first window   1 int8, KEY, start_ms int64, sequence    its index
    session            KEY, end_ms int64, start_ms int64        store and changelog
    time-first session 0 int8, end_ms int64, start_ms int64, KEY
    cached             segment int64, then the key above        segment = time // segment_interval_ms
    join side          timestamp int64, left int8, KEY          the outer store of stream-stream joins; left is 1 or 0
"""

import struct

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from broker_cy.core.cursor cimport load_u32, load_u64
from broker_cy.core.writer cimport store_u32, store_u64

cdef enum:
    LONG_BYTES = 8
    WINDOW_BYTES = 12
    SESSION_BYTES = 16

cdef long long LONG_MAX = 0x7FFFFFFFFFFFFFFF

MAX_LONG = LONG_MAX
MAX_INT = (1 << 31) - 1
WINDOW_SUFFIX_BYTES = WINDOW_BYTES
SESSION_SUFFIX_BYTES = SESSION_BYTES
START_BYTES = LONG_BYTES
SEGMENT_BYTES = LONG_BYTES

_JOIN_SIDE = struct.Struct(">q?")
pack_int = struct.Struct(">i").pack
unpack_long = struct.Struct(">q").unpack_from


cdef inline bytes room(Py_ssize_t before, bytes key, Py_ssize_t after):
    # Bytes with the key in them.
    if key is None:
        raise TypeError("a key of a store is None")
    cdef Py_ssize_t size = PyBytes_GET_SIZE(key)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, before + size + after)
    memcpy(PyBytes_AS_STRING(made) + before, PyBytes_AS_STRING(key), <size_t>size)
    return made


cdef inline uint8_t* at(bytes data, Py_ssize_t offset) noexcept:
    return <uint8_t*>PyBytes_AS_STRING(data) + offset


cdef inline long long long_of(bytes data, Py_ssize_t offset) noexcept:
    return <int64_t>load_u64(at(data, offset))


cdef Py_ssize_t key_size(bytes data, Py_ssize_t others) except -1:
    cdef Py_ssize_t size = PyBytes_GET_SIZE(data) - others
    if size < 0:
        raise ValueError(f"a key of a store has {len(data)} bytes; {others} are the least")
    return size


def pack_long(long long value):
    cdef bytes made = PyBytes_FromStringAndSize(NULL, LONG_BYTES)
    store_u64(at(made, 0), <uint64_t>value)
    return made


def pack_window(long long start_ms, int32_t sequence):
    return window_key(b"", start_ms, sequence)


def divide(long long time_ms, long long interval_ms):
    """The segment of a time. The quotient is rounded toward zero, as in Java: -1 belongs to segment 0."""
    return time_ms // interval_ms if time_ms >= 0 else -(-time_ms // interval_ms)


cpdef bytes window_key(bytes key, long long start_ms, int32_t sequence=0):
    cdef bytes made = room(0, key, WINDOW_BYTES)
    cdef uint8_t* end = at(made, PyBytes_GET_SIZE(key))
    store_u64(end, <uint64_t>start_ms)
    store_u32(end + LONG_BYTES, <uint32_t>sequence)
    return made


def window_parts(bytes data not None):
    """Key, start in ms, and sequence number."""
    cdef Py_ssize_t size = key_size(data, WINDOW_BYTES)
    return data[:size], long_of(data, size), <int32_t>load_u32(at(data, size + LONG_BYTES))


def window_end(long long start_ms, long long window_ms):
    """The end of a window; it stops at the largest int64."""
    return start_ms + window_ms if start_ms <= LONG_MAX - window_ms else LONG_MAX


cpdef bytes session_key(bytes key, long long start_ms, long long end_ms):
    cdef bytes made = room(0, key, SESSION_BYTES)
    cdef uint8_t* end = at(made, PyBytes_GET_SIZE(key))
    store_u64(end, <uint64_t>end_ms)
    store_u64(end + LONG_BYTES, <uint64_t>start_ms)
    return made


def session_parts(bytes data not None):
    """Key, start in ms, and end in ms."""
    cdef Py_ssize_t size = key_size(data, SESSION_BYTES)
    return data[:size], long_of(data, size + LONG_BYTES), long_of(data, size)


def time_first_window_key(bytes key not None, long long start_ms, int32_t sequence=0):
    cdef bytes made = room(1 + LONG_BYTES, key, 4)
    at(made, 0)[0] = 0
    store_u64(at(made, 1), <uint64_t>start_ms)
    store_u32(at(made, 1 + LONG_BYTES + PyBytes_GET_SIZE(key)), <uint32_t>sequence)
    return made


def time_first_window_parts(bytes data not None):
    """Key, start in ms, and sequence number."""
    cdef Py_ssize_t size = key_size(data, 1 + WINDOW_BYTES)
    return data[9 : 9 + size], long_of(data, 1), <int32_t>load_u32(at(data, 9 + size))


def key_first_window_key(bytes key not None, long long start_ms, int32_t sequence=0):
    return b"\x01" + window_key(key, start_ms, sequence)


def time_first_session_key(bytes key not None, long long start_ms, long long end_ms):
    cdef bytes made = room(1 + SESSION_BYTES, key, 0)
    at(made, 0)[0] = 0
    store_u64(at(made, 1), <uint64_t>end_ms)
    store_u64(at(made, 1 + LONG_BYTES), <uint64_t>start_ms)
    return made


def time_first_session_parts(bytes data not None):
    """Key, start in ms, and end in ms."""
    key_size(data, 1 + SESSION_BYTES)
    return data[1 + SESSION_BYTES :], long_of(data, 1 + LONG_BYTES), long_of(data, 1)


def key_first_session_key(bytes key not None, long long start_ms, long long end_ms):
    return b"\x01" + session_key(key, start_ms, end_ms)


def join_side_key(bytes key not None, long long timestamp, bint is_left):
    cdef bytes made = room(LONG_BYTES + 1, key, 0)
    store_u64(at(made, 0), <uint64_t>timestamp)
    at(made, LONG_BYTES)[0] = is_left
    return made


def join_side_parts(bytes data not None):
    """Key, timestamp, and whether the record came from the left side."""
    timestamp, is_left = _JOIN_SIDE.unpack_from(data)
    return data[_JOIN_SIDE.size :], timestamp, is_left


def upper_bound(bytes key, bytes suffix):
    """The last key that may belong to keys up to `key` with suffixes up to `suffix`.

    Keys have different lengths: a longer key may sort before `key` plus its suffix. So only bytes of the key that are
    not below the first byte of the suffix stand before the suffix, and the first byte always does. Kafka's bound
    misses rows of `key` without its last bytes where these are zeros; so does this one.
    """
    first = suffix[0]
    if first == 0:
        return key + suffix
    size = 0
    while size < len(key) and (size < 1 or key[size] >= first):
        size += 1
    return key[:size] + suffix


def lowest_window_key(bytes key):
    """The first key of a range of keys of windows, whatever their times are."""
    return key + bytes(WINDOW_SUFFIX_BYTES)


def highest_window_key(bytes key, long long to_ms):
    return upper_bound(key, pack_window(to_ms, MAX_INT))


def lowest_session_key(bytes key):
    return key + bytes(SESSION_SUFFIX_BYTES)


def highest_session_key(bytes key, long long latest_start_ms):
    return upper_bound(key, session_key(b"", latest_start_ms, MAX_LONG))


def next_prefix(bytes prefix):
    """The first key after all keys with this prefix; None: the prefix has no such key."""
    cdef bytes kept = prefix.rstrip(b"\xff")
    cdef Py_ssize_t last = PyBytes_GET_SIZE(kept) - 1
    return kept[:last] + bytes((kept[last] + 1,)) if last >= 0 else None

"""Rows of a changelog by the segments of their times."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport INT32_MIN, INT64_MIN, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    #define FROM_BIG_32 __builtin_bswap32
    #define FROM_BIG_64 __builtin_bswap64
    #else
    #define FROM_BIG_32
    #define FROM_BIG_64
    #endif
    """
    uint32_t FROM_BIG_32(uint32_t) noexcept nogil
    uint64_t FROM_BIG_64(uint64_t) noexcept nogil


def by_segment(dict rows not None, int64_t interval_ms, Py_ssize_t suffix_bytes):
    """The rows of each segment by its number, the latest time, and the largest number at the end of a key.

    A key ends with `suffix_bytes`, which begin with its time in ms as a big-endian int64; the last four are its number, as a
    big-endian int32. As in Java, time -1 belongs to segment 0. Raises ValueError: a key is shorter. There must be rows.
    """
    cdef dict found = {}, theirs = None
    cdef int64_t time_ms, segment, latest_ms = INT64_MIN, last = 0
    cdef int32_t largest = INT32_MIN, number
    cdef uint64_t read
    cdef uint32_t read_number
    cdef Py_ssize_t size
    cdef bytes data
    for key, value in rows.items():
        data = <bytes?>key
        size = PyBytes_GET_SIZE(data)
        if size < suffix_bytes:
            raise ValueError(f"key {data!r} of a changelog has {size} bytes; at least {suffix_bytes} are expected")
        memcpy(&read, PyBytes_AS_STRING(data) + size - suffix_bytes, 8)
        memcpy(&read_number, PyBytes_AS_STRING(data) + size - 4, 4)
        time_ms = <int64_t>FROM_BIG_64(read)
        number = <int32_t>FROM_BIG_32(read_number)
        if time_ms > latest_ms:
            latest_ms = time_ms
        if number > largest:
            largest = number
        segment = time_ms // interval_ms
        if theirs is None or segment != last:
            theirs = found.setdefault(segment, {})
            last = segment
        theirs[data] = value
    return found, latest_ms, largest

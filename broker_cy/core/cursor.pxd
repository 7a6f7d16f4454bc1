"""The only reader of foreign bytes: every read checks the end first.

Two forms of the same thing. `Cursor` is an object that owns what it reads and raises; the `get_*` functions work on bare pointers,
need no GIL and return a status, for loops over records.
"""

cimport cython
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)


cdef enum VarintStatus:
    VARINT_OK = 0
    VARINT_TRUNCATED = -1      # the bytes end inside the number
    VARINT_TOO_LONG = -2       # more bytes (5 or 10) or more bits (32 or 64) than the type has


cdef inline uint16_t load_u16(const uint8_t* p) noexcept nogil:
    return (<uint16_t>p[0] << 8) | p[1]


cdef inline uint32_t load_u32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t load_u64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>load_u32(p) << 32) | load_u32(p + 4)


cdef inline int get_uvarint(const uint8_t** p, const uint8_t* end, uint32_t* out) noexcept nogil:
    """Read an unsigned LEB128 number of at most 5 bytes and move `p[0]` behind it; on failure `p[0]` does not change."""
    cdef const uint8_t* at = p[0]
    cdef uint32_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 35:
        if at >= end:
            return VARINT_TRUNCATED
        byte = at[0]
        at += 1
        if shift == 28 and byte > 0x0F:
            return VARINT_TOO_LONG
        value |= <uint32_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = value
            p[0] = at
            return VARINT_OK
        shift += 7
    return VARINT_TOO_LONG


cdef inline int get_uvarlong(const uint8_t** p, const uint8_t* end, uint64_t* out) noexcept nogil:
    """Like get_uvarint, for 64 bits in at most 10 bytes."""
    cdef const uint8_t* at = p[0]
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while shift < 70:
        if at >= end:
            return VARINT_TRUNCATED
        byte = at[0]
        at += 1
        if shift == 63 and byte > 0x01:
            return VARINT_TOO_LONG
        value |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            out[0] = value
            p[0] = at
            return VARINT_OK
        shift += 7
    return VARINT_TOO_LONG


cdef inline int get_varint(const uint8_t** p, const uint8_t* end, int32_t* out) noexcept nogil:
    """Read a zigzag number of at most 5 bytes."""
    cdef uint32_t raw = 0
    cdef int status = get_uvarint(p, end, &raw)
    if status == VARINT_OK:
        out[0] = <int32_t>((raw >> 1) ^ (0 - (raw & 1)))
    return status


cdef inline int get_varlong(const uint8_t** p, const uint8_t* end, int64_t* out) noexcept nogil:
    """Read a zigzag number of at most 10 bytes."""
    cdef uint64_t raw = 0
    cdef int status = get_uvarlong(p, end, &raw)
    if status == VARINT_OK:
        out[0] = <int64_t>((raw >> 1) ^ (0 - (raw & 1)))
    return status


cdef enum:
    # Objects that one message may make of its arrays and tagged fields: a request of 100 MB could else become several GB of
    # them. The largest that Kafka's tools send name about 100,000 partitions. A client may allow more in an answer.
    ELEMENTS_MAX = 1000000


@cython.final
cdef class Cursor:
    cdef int64_t elements_left     # of elements_max
    cdef int64_t elements_max
    cdef const uint8_t* ptr        # next byte to read; begin <= ptr <= end, never NULL
    cdef const uint8_t* end        # one behind the last byte
    cdef const uint8_t* begin
    cdef object owner              # keeps the bytes alive
    cdef Py_buffer view            # held while the cursor lives, if it was made from a Python buffer
    cdef bint has_view
    cdef bint lenient_text         # invalid UTF-8 is decoded as Kafka does for requests (core.text), not refused

    @staticmethod
    cdef Cursor over(const uint8_t* ptr, Py_ssize_t n, object owner)

    # Count `n` objects to be made. Raises WireError if the message has too many of them.
    cdef int spend(self, int64_t n) except -1
    # The failures, out of line.
    cdef int _short(self, Py_ssize_t wanted) except -1
    cdef int _bad_varint(self, int status, int bytes_max) except -1

    cdef inline Py_ssize_t remaining(self) noexcept:
        return self.end - self.ptr

    cdef inline Py_ssize_t position(self) noexcept:
        return self.ptr - self.begin

    cdef inline const uint8_t* take(self, Py_ssize_t n) except NULL:
        """The next `n` bytes (valid while `owner` lives); raises Truncated if fewer are left, or if `n` is negative."""
        cdef const uint8_t* at = self.ptr
        if n < 0 or n > self.end - at:
            self._short(n)
            return NULL
        self.ptr = at + n
        return at

    cdef inline int8_t i8(self) except? -1:
        return <int8_t>self.take(1)[0]

    cdef inline int16_t i16(self) except? -1:
        return <int16_t>load_u16(self.take(2))

    cdef inline int32_t i32(self) except? -1:
        return <int32_t>load_u32(self.take(4))

    cdef inline int64_t i64(self) except? -1:
        return <int64_t>load_u64(self.take(8))

    cdef inline int32_t u16(self) except -1:
        return load_u16(self.take(2))

    cdef inline int64_t u32(self) except -1:
        return load_u32(self.take(4))

    cdef inline double f64(self) except? -1:
        cdef uint64_t raw = load_u64(self.take(8))
        return (<double*>&raw)[0]

    cdef inline const uint8_t* uuid(self) except NULL:
        return self.take(16)

    cdef inline int64_t uvarint(self) except -1:
        cdef uint32_t value = 0
        cdef int status
        if self.ptr < self.end and self.ptr[0] < 0x80:
            value = self.ptr[0]
            self.ptr += 1
            return value
        status = get_uvarint(&self.ptr, self.end, &value)
        if status != VARINT_OK:
            self._bad_varint(status, 5)
            return -1
        return value

    cdef inline int32_t varint(self) except? -1:
        cdef int32_t value = 0
        cdef int status = get_varint(&self.ptr, self.end, &value)
        if status != VARINT_OK:
            self._bad_varint(status, 5)
            return -1
        return value

    cdef inline int64_t varlong(self) except? -1:
        cdef int64_t value = 0
        cdef int status = get_varlong(&self.ptr, self.end, &value)
        if status != VARINT_OK:
            self._bad_varint(status, 10)
            return -1
        return value

"""A growable buffer of big-endian numbers, for everything the broker writes."""

cimport cython
from libc.stdint cimport (
    int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
)
from libc.string cimport memcpy


cdef inline void store_u16(uint8_t* p, uint16_t v) noexcept nogil:
    p[0] = v >> 8
    p[1] = v & 0xFF


cdef inline void store_u32(uint8_t* p, uint32_t v) noexcept nogil:
    p[0] = v >> 24
    p[1] = (v >> 16) & 0xFF
    p[2] = (v >> 8) & 0xFF
    p[3] = v & 0xFF


cdef inline void store_u64(uint8_t* p, uint64_t v) noexcept nogil:
    store_u32(p, <uint32_t>(v >> 32))
    store_u32(p + 4, <uint32_t>v)


cdef inline int put_uvarlong(uint8_t* p, uint64_t v) noexcept nogil:
    """Write `v` at `p` (room for 10 bytes; 5 are enough for 32 bits); how many bytes it took."""
    cdef int n = 0
    while v >= 0x80:
        p[n] = <uint8_t>(v & 0x7F) | 0x80
        v >>= 7
        n += 1
    p[n] = <uint8_t>v
    return n + 1


@cython.final
cdef class Writer:
    cdef uint8_t* buf              # owned; moves when it grows, so keep offsets and not pointers
    cdef Py_ssize_t pos            # bytes written
    cdef Py_ssize_t capacity

    cdef int _grow(self, Py_ssize_t n) except -1
    cdef int patch_i32(self, Py_ssize_t at, int32_t v) except -1
    cdef int put_bytes(self, object data) except -1
    cdef int nullable_string(self, object text) except -1
    cdef int compact_nullable_string(self, object text) except -1
    cdef bytes take_value(self)

    cdef inline int reserve(self, Py_ssize_t n) except -1:
        """Make room for `n` more bytes; raises WireError beyond the frame limit, MemoryError without memory."""
        if n > self.capacity - self.pos:
            self._grow(n)
        return 0

    cdef inline int i8(self, int8_t v) except -1:
        self.reserve(1)
        self.buf[self.pos] = <uint8_t>v
        self.pos += 1
        return 0

    cdef inline int i16(self, int16_t v) except -1:
        self.reserve(2)
        store_u16(self.buf + self.pos, <uint16_t>v)
        self.pos += 2
        return 0

    cdef inline int i32(self, int32_t v) except -1:
        self.reserve(4)
        store_u32(self.buf + self.pos, <uint32_t>v)
        self.pos += 4
        return 0

    cdef inline int i64(self, int64_t v) except -1:
        self.reserve(8)
        store_u64(self.buf + self.pos, <uint64_t>v)
        self.pos += 8
        return 0

    cdef inline int u16(self, uint16_t v) except -1:
        return self.i16(<int16_t>v)

    cdef inline int u32(self, uint32_t v) except -1:
        return self.i32(<int32_t>v)

    cdef inline int f64(self, double v) except -1:
        return self.i64((<int64_t*>&v)[0])

    cdef inline int uvarint(self, uint32_t v) except -1:
        self.reserve(5)
        self.pos += put_uvarlong(self.buf + self.pos, v)
        return 0

    cdef inline int varint(self, int32_t v) except -1:
        return self.uvarint((<uint32_t>v << 1) ^ <uint32_t>(v >> 31))

    cdef inline int varlong(self, int64_t v) except -1:
        self.reserve(10)
        self.pos += put_uvarlong(self.buf + self.pos, (<uint64_t>v << 1) ^ <uint64_t>(v >> 63))
        return 0

    cdef inline int raw(self, const void* p, Py_ssize_t n) except -1:
        self.reserve(n)
        if n > 0:
            memcpy(self.buf + self.pos, p, n)
        self.pos += n
        return 0

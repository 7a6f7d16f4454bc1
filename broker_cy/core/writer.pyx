"""The parts of Writer that are not on the hot path, and its Python face (`write_*`)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdlib cimport free, malloc, realloc

from broker_cy.core.errors import WireError

# A frame's size is an int32, so nothing longer can be sent.
cdef Py_ssize_t BYTES_MAX = 0x7FFFFFFF
cdef Py_ssize_t CAPACITY_MIN = 64
# The limit of a STRING; a longer text is cut.
cdef enum:
    STRING_BYTES_MAX = 32767


cdef class Writer:
    """Writes big-endian numbers. `capacity` is the first allocation in bytes; it doubles as needed, up to 2 GiB - 1."""

    def __cinit__(self, Py_ssize_t capacity=256):
        if capacity < CAPACITY_MIN:
            capacity = CAPACITY_MIN
        self.buf = <uint8_t*>malloc(capacity)
        if self.buf == NULL:
            raise MemoryError(f"no {capacity} bytes for a writer")
        self.capacity = capacity

    def __dealloc__(self):
        free(self.buf)

    cdef int _grow(self, Py_ssize_t n) except -1:
        cdef Py_ssize_t wanted
        cdef uint8_t* moved
        if n < 0 or n > BYTES_MAX - self.pos:
            raise WireError(f"{n} more bytes after {self.pos} exceed the longest frame, {BYTES_MAX}")
        wanted = self.capacity * 2
        if wanted < self.pos + n:
            wanted = self.pos + n
        if wanted > BYTES_MAX:
            wanted = BYTES_MAX
        moved = <uint8_t*>realloc(self.buf, wanted)
        if moved == NULL:
            raise MemoryError(f"no {wanted} bytes for a writer")
        self.buf = moved
        self.capacity = wanted
        return 0

    cdef int patch_i32(self, Py_ssize_t at, int32_t v) except -1:
        """Overwrite the four bytes at `at`, which must have been written."""
        if at < 0 or at > self.pos - 4:
            raise IndexError(f"no int32 was written at {at}, only {self.pos} bytes")
        store_u32(self.buf + at, <uint32_t>v)
        return 0

    cdef int put_bytes(self, object data) except -1:
        """Append the bytes of any contiguous buffer, without a length."""
        cdef Py_buffer view
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            self.raw(view.buf, view.len)
        finally:
            PyBuffer_Release(&view)
        return 0

    cdef int nullable_string(self, object text) except -1:
        """NULLABLE_STRING: `text` is None or a str. At most STRING_BYTES_MAX of its bytes are written."""
        if text is None:
            return self.i16(-1)
        data = text.encode()[:STRING_BYTES_MAX]
        self.i16(len(data))
        return self.put_bytes(data)

    cdef int compact_nullable_string(self, object text) except -1:
        """COMPACT_NULLABLE_STRING, of the same."""
        if text is None:
            return self.i8(0)
        data = text.encode()[:STRING_BYTES_MAX]
        self.uvarint(len(data) + 1)
        return self.put_bytes(data)

    cdef bytes take_value(self):
        return PyBytes_FromStringAndSize(<const char*>self.buf, self.pos)

    def write_i8(self, int8_t v):
        self.i8(v)

    def write_i16(self, int16_t v):
        self.i16(v)

    def write_i32(self, int32_t v):
        self.i32(v)

    def write_i64(self, int64_t v):
        self.i64(v)

    def write_u16(self, uint16_t v):
        self.u16(v)

    def write_u32(self, uint32_t v):
        self.u32(v)

    def write_f64(self, double v):
        self.f64(v)

    def write_uvarint(self, uint32_t v):
        self.uvarint(v)

    def write_varint(self, int32_t v):
        self.varint(v)

    def write_varlong(self, int64_t v):
        self.varlong(v)

    def write_bytes(self, data):
        self.put_bytes(data)

    def patch(self, Py_ssize_t at, int32_t v):
        """Overwrite the int32 at offset `at`. Raises IndexError if none was written."""
        self.patch_i32(at, v)

    def truncate(self, Py_ssize_t size):
        """Forget everything behind the first `size` bytes; the memory stays for reuse."""
        if size < 0 or size > self.pos:
            raise IndexError(f"cannot cut {self.pos} bytes to {size}")
        self.pos = size

    def getvalue(self):
        """A copy of the written bytes."""
        return self.take_value()

    def __len__(self):
        return self.pos

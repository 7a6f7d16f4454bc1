"""The parts of Cursor that are not on the hot path, and its Python face (`read_*`)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize

from broker_cy.core.errors import Truncated, WireError

# The memory of an empty cursor: PyObject_GetBuffer may give NULL for no bytes, and `take` must not return NULL.
cdef const uint8_t* NOTHING = b""


cdef class Cursor:
    """Reads big-endian numbers out of any bytes-like object, which it keeps exported until it is garbage."""

    def __cinit__(self, buffer=None):
        self.begin = self.ptr = self.end = NOTHING
        self.elements_max = self.elements_left = ELEMENTS_MAX
        if buffer is not None:
            PyObject_GetBuffer(buffer, &self.view, PyBUF_SIMPLE)
            self.has_view = True
            if self.view.len > 0:
                self.begin = self.ptr = <const uint8_t*>self.view.buf
                self.end = self.ptr + self.view.len

    def __dealloc__(self):
        if self.has_view:
            PyBuffer_Release(&self.view)

    @staticmethod
    cdef Cursor over(const uint8_t* ptr, Py_ssize_t n, object owner):
        """A cursor over `n` bytes at `ptr` that keeps `owner`, which must keep the bytes alive and unmoved."""
        cdef Cursor cursor = Cursor.__new__(Cursor)
        cursor.owner = owner
        if ptr != NULL and n > 0:
            cursor.begin = cursor.ptr = ptr
            cursor.end = ptr + n
        return cursor

    cdef int spend(self, int64_t n) except -1:
        self.elements_left -= n
        if self.elements_left < 0:
            raise WireError(f"more than {self.elements_max} elements in one message")
        return 0

    cdef int _short(self, Py_ssize_t wanted) except -1:
        if wanted < 0:
            raise WireError(f"negative length {wanted} at byte {self.position()}")
        raise Truncated(f"{wanted} bytes are needed at byte {self.position()}, but {self.remaining()} are left")

    cdef int _bad_varint(self, int status, int bytes_max) except -1:
        if status == VARINT_TRUNCATED:
            raise Truncated(f"the bytes end inside the varint at byte {self.position()}")
        raise WireError(
            f"the varint at byte {self.position()} has more than {bytes_max} bytes or {bytes_max // 5 * 32} bits"
        )

    def read_i8(self):
        return self.i8()

    def read_i16(self):
        return self.i16()

    def read_i32(self):
        return self.i32()

    def read_i64(self):
        return self.i64()

    def read_u16(self):
        return self.u16()

    def read_u32(self):
        return self.u32()

    def read_f64(self):
        return self.f64()

    def read_uvarint(self):
        return self.uvarint()

    def read_varint(self):
        return self.varint()

    def read_varlong(self):
        return self.varlong()

    def read_bytes(self, Py_ssize_t n):
        """A copy of the next `n` bytes. Raises Truncated, before any allocation, if fewer are left."""
        cdef const uint8_t* at = self.take(n)
        return PyBytes_FromStringAndSize(<const char*>at, n)

    @property
    def left(self):
        """How many bytes are still to be read."""
        return self.remaining()

    @property
    def at(self):
        """How many bytes were read."""
        return self.position()

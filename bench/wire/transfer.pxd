from libc.stdint cimport int64_t, uint8_t

from bench.wire.connections cimport Conn, Connections
from bench.wire.system cimport iovec


cdef class Transfer(Connections):
    cdef bint _has_room(self, Conn* conn) noexcept nogil
    cdef void _issue(self, Conn* conn, int64_t due_ns) noexcept nogil
    cdef int _flush(self, Conn* conn) noexcept nogil
    cdef Py_ssize_t _put(self, Conn* conn, const iovec* iov, int count) noexcept nogil
    cdef Py_ssize_t _encrypt(self, Conn* conn, uint8_t* data, Py_ssize_t size) noexcept with gil
    cdef Py_ssize_t _take(self, Conn* conn, uint8_t* into, Py_ssize_t room) noexcept nogil
    cdef Py_ssize_t _decrypt(self, Conn* conn, uint8_t* into, Py_ssize_t room) noexcept with gil
    cdef void _flushed(self, Conn* conn) noexcept nogil
    cdef int _watch(self, Conn* conn, bint write) noexcept nogil
    cdef bint _grow_inbox(self, Conn* conn, Py_ssize_t wanted) noexcept nogil

"""Finds out whether bytes of a file are in memory, and brings them there without stalling the loop."""

from libc.stdint cimport int64_t, uint8_t

cdef bint is_cached(int fd, int64_t position, Py_ssize_t size, bint on_their_way) noexcept nogil
cdef Py_ssize_t read_cached(int fd, uint8_t* into, Py_ssize_t size, int64_t position) noexcept nogil

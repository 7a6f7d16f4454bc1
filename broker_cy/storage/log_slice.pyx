"""A part of a segment file that is sent directly from the file."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EAGAIN

from broker_cy.storage.disk cimport pread_all

import os

from broker_cy.storage.errors import ColdRead, StorageError


cdef class LogSlice:
    """`size` bytes of a segment file at `position`, readable through `fd` as long as this object exists."""

    def __dealloc__(self):
        if self.segment is not None:
            (<Segment>self.segment).unpin()

    cdef LogSlice piece(self, int64_t position, Py_ssize_t size, int64_t first_offset):
        cdef LogSlice found = LogSlice.__new__(LogSlice)
        found.fd = self.fd
        found.segment = self.segment
        (<Segment>self.segment).pins += 1
        found.position = position
        found.size = size
        found.first_offset = first_offset
        found.cuts = self.cuts
        return found

    @property
    def is_stale(self):
        """`is_cut`, for Python."""
        return self.is_cut()

    def read(self):
        """A copy of the bytes; raises StorageError, and ColdRead while reads are confined (disk.confine_reads)."""
        cdef Py_ssize_t got = 0
        cdef bytes data = PyBytes_FromStringAndSize(NULL, self.size)
        cdef char* out = PyBytes_AS_STRING(data)
        cdef int error
        with nogil:
            error = pread_all(self.fd, out, self.size, self.position, &got)
        if error == EAGAIN:
            raise ColdRead(self.segment.path, self.position, self.size)
        if error != 0:
            raise StorageError(f"cannot read {self.segment.path}: {os.strerror(error)}")
        if got != self.size:
            raise StorageError(f"{self.segment.path} ends before byte {self.position + self.size}")
        return data

    def __repr__(self):
        return f"LogSlice({self.segment!r}, position={self.position}, size={self.size}, first_offset={self.first_offset})"


cdef class LogTotals:
    """Counters that all logs of a broker share."""

    def __cinit__(self):
        self.due_bytes = 0x7FFFFFFFFFFFFFFF
        self.dirty = set()

    cdef int written(self, object log, bint first, int64_t size) except -1:
        """Count `size` bytes that `log` has written; `first` is whether it had nothing to flush before."""
        if first:
            self.dirty.add(log)
        self.unflushed_bytes += size
        self.new_bytes += size
        if self.new_bytes >= self.due_bytes and self.on_due is not None:
            self.new_bytes = 0
            self.on_due()
        return 0

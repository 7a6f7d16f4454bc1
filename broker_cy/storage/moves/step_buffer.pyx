"""The memory for the bytes of one step of a move, which all of its steps use in turn.

New memory for each step would cost as much as the copy itself: the kernel clears its pages, and takes them back. Each call reads or
writes a whole piece without the GIL, because each return to Python waits for the loop, and the loop for it.
"""

import os

from libc.errno cimport EINVAL, ENOSYS, errno
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, realloc

from broker_cy.storage.disk cimport pread_all, pwrite_all

cdef extern from *:
    """
    #include <fcntl.h>
    static int bc_write_out(int fd, long long position, long long size) {
        return sync_file_range(fd, position, size,
                               SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    }
    """
    int write_out "bc_write_out"(int fd, int64_t position, int64_t size) nogil

cdef extern from "<fcntl.h>" nogil:
    int posix_fadvise(int fd, int64_t offset, int64_t size, int advice)
    int POSIX_FADV_DONTNEED, POSIX_FADV_WILLNEED

cdef enum:
    # Bytes of one write: the page cache takes memory in blocks as large as a write, and larger ones are slow to find.
    WRITE_BYTES = 1 << 20
    # After a step that needed more, the memory is given back.
    KEPT_BYTES = 16 << 20


cdef class StepBuffer:
    """Used by one thread at a time. Spans are positions in the buffer, until `clear`."""

    cdef uint8_t* _memory
    cdef size_t _capacity
    cdef readonly size_t used_bytes

    def __dealloc__(self):
        free(self._memory)

    def clear(self):
        """Begin another step."""
        self.used_bytes = 0
        if self._capacity > KEPT_BYTES:
            free(self._memory)
            self._memory = NULL
            self._capacity = 0

    def read(self, int fd, int64_t position, int64_t size):
        """Read `size` bytes of a file from `position` on, and let the disk read as many behind them. Returns how many there are. They
        begin at the present `used_bytes`. Raises OSError, MemoryError.
        """
        cdef Py_ssize_t got = 0
        cdef int error
        cdef uint8_t* memory
        if size <= 0:
            return 0
        if self.used_bytes + <size_t>size > self._capacity:
            memory = <uint8_t*>realloc(self._memory, self.used_bytes + <size_t>size)
            if memory == NULL:
                raise MemoryError()
            self._memory = memory
            self._capacity = self.used_bytes + <size_t>size
        with nogil:
            error = pread_all(fd, self._memory + self.used_bytes, <size_t>size, position, &got)
            if error == 0:
                posix_fadvise(fd, position + size, size, POSIX_FADV_WILLNEED)
        if error != 0:
            raise OSError(error, os.strerror(error))
        self.used_bytes += <size_t>got
        return got

    def write(self, int fd, size_t span, size_t size, int64_t position, bint keeps_cached):
        """Write the `size` bytes of a span to a file at `position`, and wait until the disk has their content; a sync of the file then
        has little to do. Without `keeps_cached` they then leave the page cache. Raises OSError.
        """
        cdef size_t at = 0, piece
        cdef int error = 0
        if span + size > self.used_bytes:
            raise ValueError(f"{size} bytes from {span} on: the buffer has {self.used_bytes}")
        if size == 0:
            return
        with nogil:
            while at < size and error == 0:
                piece = size - at if size - at < WRITE_BYTES else WRITE_BYTES
                error = pwrite_all(fd, self._memory + span + at, piece, position + <int64_t>at)
                at += piece
            # Unlike a sync, this needs no commit of the journal, which the writes of the loop would wait for.
            if error == 0 and write_out(fd, position, <int64_t>size) != 0:
                error = errno
                if error == ENOSYS or error == EINVAL:
                    error = 0               # the file system cannot do it
            if error == 0 and not keeps_cached:
                posix_fadvise(fd, position, <int64_t>size, POSIX_FADV_DONTNEED)
        if error != 0:
            raise OSError(error, os.strerror(error))

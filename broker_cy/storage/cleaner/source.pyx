"""Reading a segment for the cleaner, through one buffer that grows to the largest batch."""

import os

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove

from broker_cy.core.crc32c cimport crc32c
from broker_cy.storage.disk cimport pread_all
from broker_cy.wire.batch cimport BATCH_CRC_START, BATCH_HEADER_BYTES, batch_bytes, parse_header

from broker_cy.storage.errors import CorruptSegment

cdef enum:
    MAGIC = 2
    OFFSETS_MAX = 0x7FFFFFFF
    BUFFER_BYTES_MIN = 4096

cdef int64_t ANY_LENGTH = 0x7FFFFFFFFFFF


cdef class BatchSource:
    """Batches in the first `size` bytes of the file open as `fd`, which the caller has to close; `path` is for messages. With
    `check` their checksums are verified. Raises MemoryError."""

    def __cinit__(self, int fd, path, int64_t size, int64_t base_offset, int64_t buffer_bytes, bint check):
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        self.fd = fd
        self.path = path
        self.end = size
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.capacity = max(<int64_t>BUFFER_BYTES_MIN, min(buffer_bytes, size))
        self.check = check
        self.block = <uint8_t*>malloc(<size_t>self.capacity)
        if self.block == NULL:
            raise MemoryError(f"no memory for a read buffer of {self.capacity} bytes")

    def __dealloc__(self):
        free(self.block)

    cdef int failed(self, int fault) noexcept nogil:
        self.fault = fault
        return -1

    cdef int load(self, int64_t at, int64_t need) noexcept nogil:
        """Make the block contain `need` bytes from `at` on; return 0, or -1 with `fault` set."""
        cdef uint8_t* grown
        cdef int64_t kept = self.block_start + self.block_length - at
        cdef int64_t want
        cdef Py_ssize_t got = 0
        if need <= kept:
            return 0
        if kept > 0:
            memmove(self.block, self.block + (at - self.block_start), <size_t>kept)
        else:
            kept = 0
        self.block_start = at
        self.block_length = kept
        if need > self.capacity:
            # `need` is at most the rest of the file: a larger length was refused before.
            grown = <uint8_t*>realloc(self.block, <size_t>need)
            if grown == NULL:
                return self.failed(FAULT_MEMORY)
            self.block = grown
            self.capacity = need
        want = min(self.capacity, self.end - at) - kept
        self.error = pread_all(self.fd, self.block + kept, <size_t>want, at + kept, &got)
        if self.error != 0:
            return self.failed(FAULT_READ)
        self.block_length += got
        return 0 if need <= self.block_length else self.failed(FAULT_SHORT)

    cdef int advance(self) noexcept nogil:
        cdef int64_t at = self.next_position
        cdef int64_t size
        self.position = at
        if at >= self.end:
            return 0
        if self.end - at < BATCH_HEADER_BYTES:
            return self.failed(FAULT_SHORT)
        if self.load(at, BATCH_HEADER_BYTES) != 0:
            return -1
        if parse_header(self.block + (at - self.block_start), ANY_LENGTH, &self.header) != 0:
            return self.failed(FAULT_HEADER)
        if self.header.magic != MAGIC:
            return self.failed(FAULT_MAGIC)
        size = batch_bytes(&self.header)
        if size > self.end - at:
            return self.failed(FAULT_SHORT)
        if (
            self.header.base_offset < self.next_offset or self.header.last_offset_delta < 0 or self.header.count < 0
            or self.header.base_offset - self.base_offset > OFFSETS_MAX - self.header.last_offset_delta
        ):
            return self.failed(FAULT_OFFSETS)
        if self.load(at, size) != 0:
            return -1
        self.data = self.block + (at - self.block_start)
        if self.check and crc32c(0, self.data + BATCH_CRC_START, <size_t>(size - BATCH_CRC_START)) != self.header.crc:
            return self.failed(FAULT_CHECKSUM)
        self.next_position = at + size
        self.next_offset = self.header.base_offset + self.header.last_offset_delta + 1
        self.read_bytes += size
        return 1

    cdef int raise_fault(self) except -1:
        if self.fault == FAULT_READ:
            raise OSError(self.error, os.strerror(self.error), self.path)
        if self.fault == FAULT_MEMORY:
            raise MemoryError(f"no memory to clean {self.path}")
        reason = {
            <int>FAULT_SHORT: "the file ends within a batch",
            <int>FAULT_HEADER: "the batch length is too small for a batch header",
            <int>FAULT_MAGIC: f"magic {self.header.magic} is not {<int>MAGIC}",
            <int>FAULT_OFFSETS:
                f"base offset {self.header.base_offset} with last offset delta {self.header.last_offset_delta} is invalid after "
                f"offset {self.next_offset - 1}",
            <int>FAULT_CHECKSUM: f"the checksum of the batch at offset {self.header.base_offset} is wrong",
            <int>FAULT_RECORDS: f"the records of the batch at offset {self.header.base_offset} cannot be read",
        }[self.fault]
        raise CorruptSegment(self.path, self.position, reason)

"""Walking the batches of a segment file, header by header, and checking them. Lookups, recovery and verification use it.

The reader reads a file in blocks, and releases the GIL while it reads and computes checksums, so that it can run in a worker thread
as long as the segment is not written to at the same time.
"""

import os

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc

from broker_cy.core.crc32c cimport crc32c
from broker_cy.storage.disk cimport pread_all
from broker_cy.wire.batch cimport BATCH_CRC_START, BATCH_HEADER_BYTES, BatchHeader, batch_bytes, parse_header

cdef enum:
    # Block size of a scan that reads every byte, and of one that reads only headers.
    CHECK_BLOCK_BYTES = 1 << 18
    WALK_BLOCK_BYTES = 1 << 12
    # The indexes of a segment store offsets as int32, relative to its base offset.
    OFFSETS_MAX = 0x7FFFFFFF


cdef class ScanResult:
    """The end of a scan, and the reason unless it is the end of the file."""

    def __repr__(self):
        return f"ScanResult(position={self.position}, next_offset={self.next_offset}, problem={self.problem!r})"


cdef class BatchReader:
    """Walks the batches of the file `fd` from `position` up to `end`; verifies the checksums of those at or after offset
    `check_from`. All of them have to be before `limit`, the offset at which the next segment begins: no checksum covers the
    offsets."""

    def __cinit__(
        self, int fd, int64_t position, int64_t end, int64_t next_offset, int64_t check_from, int64_t limit=0x7FFFFFFFFFFFFFFF
    ):
        if fd >= 0:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        self.fd = fd
        self.end = end
        self.next_position = position
        self.position = position
        self.next_offset = next_offset
        self.check_from = check_from
        self.base_offset = next_offset
        self.limit = limit
        self.may_have_gap = True
        self.block_size = CHECK_BLOCK_BYTES if check_from < 0x7FFFFFFFFFFFFFFF else WALK_BLOCK_BYTES
        self.block = <uint8_t*>malloc(<size_t>self.block_size)
        if self.block == NULL:
            raise MemoryError("no memory to read a segment")

    def __dealloc__(self):
        free(self.block)

    cdef int load(self, int64_t at, int64_t most) except -1:
        """Read the block that begins at `at`: at most `most` bytes, and no more than the buffer holds."""
        cdef int error
        cdef Py_ssize_t got = 0
        cdef int64_t want = self.end - at
        if want > self.block_size:
            want = self.block_size
        if want > most:
            want = most
        with nogil:
            error = pread_all(self.fd, self.block, <size_t>want, at, &got)
        if error != 0:
            raise OSError(error, os.strerror(error))
        self.block_start = at
        self.block_length = got
        return 0

    cdef int checksum(self, uint32_t* out) except -1:
        """CRC-32C of the current batch, over as many blocks as it takes."""
        cdef int64_t at = self.position + BATCH_CRC_START
        cdef int64_t stop = self.next_position
        cdef int64_t inside
        cdef uint32_t crc = 0
        while at < stop:
            if at < self.block_start or at >= self.block_start + self.block_length:
                self.load(at, self.block_size)
                if self.block_length == 0:
                    raise OSError(5, "the file became shorter")
            inside = self.block_start + self.block_length - at
            if inside > stop - at:
                inside = stop - at
            with nogil:
                crc = crc32c(crc, self.block + (at - self.block_start), <size_t>inside)
            at += inside
        out[0] = crc
        return 0

    cdef bint advance(self) except -1:
        """Go to the next batch; False at the end or if there is no valid one (then `problem` says why, and `position` is the
        end of the last valid one)."""
        cdef int64_t at = self.next_position
        cdef BatchHeader* header = &self.header
        cdef uint32_t crc = 0
        self.position = at
        if at >= self.end:
            return False
        if self.end - at < BATCH_HEADER_BYTES:
            self.problem = f"{self.end - at} bytes are too few for a batch header of {<int>BATCH_HEADER_BYTES}"
            return False
        if at < self.block_start or at + BATCH_HEADER_BYTES > self.block_start + self.block_length:
            # Only the headers of batches before `check_from` are read.
            self.load(at, self.block_size if self.next_offset >= self.check_from else WALK_BLOCK_BYTES)
            if self.block_length < BATCH_HEADER_BYTES:
                self.problem = "the file is shorter than it was"
                return False
        if parse_header(self.block + (at - self.block_start), ANY_LENGTH, header) != 0:
            self.problem = "the batch length is too small for a batch header"
            return False
        if batch_bytes(header) > self.end - at:
            self.problem = f"a batch of {batch_bytes(header)} bytes does not fit into the last {self.end - at} bytes"
            return False
        if header.magic != MAGIC:
            self.problem = f"magic {header.magic} is not {<int>MAGIC}"
            return False
        if header.base_offset < self.next_offset or header.last_offset_delta < 0:
            self.problem = (
                f"base offset {header.base_offset} with last offset delta {header.last_offset_delta} is invalid after "
                f"offset {self.next_offset - 1}"
            )
            return False
        if header.base_offset - self.base_offset > OFFSETS_MAX - header.last_offset_delta:
            self.problem = (
                f"base offset {header.base_offset} with last offset delta {header.last_offset_delta} is too far from the base "
                f"offset of the segment, {self.base_offset}"
            )
            return False
        if header.base_offset + header.last_offset_delta >= self.limit:
            self.problem = (
                f"base offset {header.base_offset} with last offset delta {header.last_offset_delta} reaches offset "
                f"{self.limit}, at which the next segment begins"
            )
            return False
        if header.base_offset > self.next_offset and not self.may_have_gap:
            self.problem = f"base offset {header.base_offset} leaves a gap after offset {self.next_offset - 1}"
            return False
        self.next_position = at + batch_bytes(header)
        if header.base_offset + header.last_offset_delta >= self.check_from:
            self.checksum(&crc)
            if crc != header.crc:
                self.problem = f"checksum {header.crc} of the batch at offset {header.base_offset} should be {crc}"
                self.next_position = at
                return False
        self.next_offset = header.base_offset + header.last_offset_delta + 1
        return True

    cdef bytes body(self, Py_ssize_t limit):
        """The current batch, if it is at most `limit` bytes long; else its first `limit` bytes."""
        cdef int64_t size = self.next_position - self.position
        return os.pread(self.fd, min(size, limit), self.position)


cdef ScanResult finish(BatchReader reader, int64_t batches):
    cdef ScanResult result = ScanResult.__new__(ScanResult)
    result.position = reader.position
    result.next_offset = reader.next_offset
    result.batches = batches
    result.problem = reader.problem
    return result

from libc.stdint cimport int64_t, uint8_t, uint32_t

from broker_cy.wire.batch cimport BatchHeader

cdef enum:
    MAGIC = 2

cdef enum:
    # Largest `length` a batch can have; keeps position arithmetic far from overflow.
    ANY_LENGTH = 0x7FFFFFFFFFFF

# The end of a scan: `position` is the end of the last valid batch.
cdef class ScanResult:
    cdef readonly int64_t position
    cdef readonly int64_t next_offset       # after the last valid batch
    cdef readonly int64_t batches
    cdef readonly object problem            # None, or what is wrong at `position` (str)

# Walks the batches of a file, header by header.
cdef class BatchReader:
    cdef int fd
    cdef int64_t position           # of the current batch
    cdef int64_t end
    cdef int64_t next_position
    cdef int64_t next_offset        # smallest base offset that the next batch may have
    cdef int64_t check_from
    cdef int64_t base_offset        # of the segment
    cdef int64_t limit              # base offset of the next segment, which no batch reaches
    cdef bint may_have_gap          # before the next batch
    cdef BatchHeader header
    cdef uint8_t* block
    cdef Py_ssize_t block_size
    cdef int64_t block_start
    cdef Py_ssize_t block_length
    cdef object problem

    cdef int load(self, int64_t at, int64_t most) except -1
    cdef int checksum(self, uint32_t* out) except -1
    cdef bint advance(self) except -1
    cdef bytes body(self, Py_ssize_t limit)

# The result of a scan that read `batches` batches.
cdef ScanResult finish(BatchReader reader, int64_t batches)

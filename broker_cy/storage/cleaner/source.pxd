# The batches of one segment file, each whole in memory, for a worker thread. Needs no GIL and no state of the broker.
from libc.stdint cimport int64_t, uint8_t

from broker_cy.wire.batch cimport BatchHeader

cdef enum SourceFault:
    FAULT_NONE = 0
    FAULT_READ = 1              # `error` is the errno
    FAULT_SHORT = 2             # the file ends within a batch
    FAULT_HEADER = 3
    FAULT_MAGIC = 4
    FAULT_OFFSETS = 5           # they do not increase, or are too far from the segment's base offset
    FAULT_CHECKSUM = 6
    FAULT_RECORDS = 7           # set by the function that reads the records
    FAULT_MEMORY = 8

cdef class BatchSource:
    cdef int fd
    cdef readonly object path
    cdef int64_t end
    cdef int64_t base_offset
    cdef int64_t position           # of the current batch
    cdef int64_t next_position
    cdef int64_t next_offset        # after the current batch
    cdef uint8_t* block
    cdef int64_t capacity
    cdef int64_t block_start
    cdef int64_t block_length
    cdef bint check                 # verify the checksum of every batch
    cdef BatchHeader header         # of the current batch
    cdef uint8_t* data              # the current batch
    cdef int fault
    cdef int error
    cdef int64_t read_bytes         # of the batches passed since a walk last set it to 0

    # Goes to the next batch. Returns 1, 0 at the end, or -1 with `fault` set.
    cdef int advance(self) noexcept nogil
    cdef int load(self, int64_t at, int64_t need) noexcept nogil
    cdef int failed(self, int fault) noexcept nogil
    # Raises the error that `fault` stands for.
    cdef int raise_fault(self) except -1

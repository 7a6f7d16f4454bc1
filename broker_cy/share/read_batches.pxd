from libc.stdint cimport int64_t

cdef struct ReadBatch:
    int64_t base_offset
    int64_t last_offset
    int64_t position                # in the segment file
    int64_t size                    # in bytes
    bint is_aborted                 # its transaction was aborted; set only for read_committed


# The batches that one read of a partition found, in ascending order, in one piece of memory.
cdef class ReadBatches:
    cdef ReadBatch* items
    cdef readonly Py_ssize_t count
    cdef Py_ssize_t capacity

    cdef int add(self, int64_t base_offset, int64_t last_offset, int64_t position, int64_t size, bint is_aborted) except -1
    cdef int64_t last_offset_around(self, int64_t offset) noexcept nogil

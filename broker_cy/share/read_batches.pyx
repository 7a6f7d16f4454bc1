"""The bounds of the batches that were read from a log: acquiring records goes by whole batches."""

from libc.stdlib cimport free, realloc

cdef enum:
    CAPACITY_MIN = 8


cdef class ReadBatches:
    """`ReadBatches([(base offset, last offset)], aborted base offsets)`, or one by one with `add`."""

    def __init__(self, bounds=(), aborted=frozenset()):
        for base_offset, last_offset in bounds:
            self.add(base_offset, last_offset, 0, 0, base_offset in aborted)

    def __dealloc__(self):
        free(self.items)

    cdef int add(self, int64_t base_offset, int64_t last_offset, int64_t position, int64_t size, bint is_aborted) except -1:
        cdef ReadBatch* grown
        cdef Py_ssize_t capacity
        if self.count == self.capacity:
            capacity = self.capacity * 2 if self.capacity else CAPACITY_MIN
            grown = <ReadBatch*>realloc(self.items, <size_t>capacity * sizeof(ReadBatch))
            if grown == NULL:
                raise MemoryError("no memory for the bounds of batches")
            self.items = grown
            self.capacity = capacity
        self.items[self.count] = ReadBatch(base_offset, last_offset, position, size, is_aborted)
        self.count += 1
        return 0

    cdef int64_t last_offset_around(self, int64_t offset) noexcept nogil:
        """The last offset of the batch that contains `offset`; `offset` itself if it is in none."""
        cdef Py_ssize_t index
        for index in range(self.count):
            if self.items[index].base_offset > offset:
                break
            if offset <= self.items[index].last_offset:
                return self.items[index].last_offset
        return offset

    def bounds(self):
        """[(base offset, last offset, whether aborted)]"""
        return [
            (self.items[index].base_offset, self.items[index].last_offset, bool(self.items[index].is_aborted))
            for index in range(self.count)
        ]

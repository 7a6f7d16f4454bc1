"""First offsets of the open transactions of a log, in ascending order: the first of them bounds the last stable offset.

They are added in that order, since each new transaction begins at the log's end.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport qsort, realloc
from libc.string cimport memmove

cdef struct OpenList:
    int64_t* offsets
    Py_ssize_t count
    Py_ssize_t capacity


cdef inline int64_t first_open(OpenList* self) noexcept nogil:
    """The smallest of the offsets; -1 if no transaction is open."""
    return self.offsets[0] if self.count else -1


cdef inline int add_open(OpenList* self, int64_t first_offset) except -1:
    """Add an offset that is larger than the others; if it is not, the caller has to call sort_open afterwards."""
    cdef int64_t* grown
    cdef Py_ssize_t capacity
    if self.count == self.capacity:
        capacity = self.capacity + self.capacity // 2 if self.capacity else 4
        grown = <int64_t*>realloc(self.offsets, <size_t>capacity * sizeof(int64_t))
        if grown == NULL:
            raise MemoryError("no memory for open transactions")
        self.offsets = grown
        self.capacity = capacity
    self.offsets[self.count] = first_offset
    self.count += 1
    return 0


cdef inline int remove_open(OpenList* self, int64_t first_offset) noexcept nogil:
    cdef Py_ssize_t low = 0, high = self.count, middle
    while low < high:
        middle = (low + high) // 2
        if self.offsets[middle] < first_offset:
            low = middle + 1
        else:
            high = middle
    if low < self.count and self.offsets[low] == first_offset:
        self.count -= 1
        memmove(&self.offsets[low], &self.offsets[low + 1], <size_t>(self.count - low) * sizeof(int64_t))
    return 0


cdef inline int by_value(const void* a, const void* b) noexcept nogil:
    cdef int64_t left = (<int64_t*>a)[0]
    cdef int64_t right = (<int64_t*>b)[0]
    return (left > right) - (left < right)


cdef inline int sort_open(OpenList* self) noexcept nogil:
    if self.count:
        qsort(self.offsets, <size_t>self.count, sizeof(int64_t), by_value)
    return 0

"""The records of a share partition that are in flight, as runs: the records of a run have everything in common.

A run belongs to one batch, the records that were acquired together, because Kafka's rules apply to batches: its first run has
BATCH_START. A batch that is touched in part has several runs, and fewer again as soon as neighbors are equal.
"""

from libc.stdlib cimport free, realloc
from libc.string cimport memmove

cdef enum:
    CAPACITY_MIN = 4


cdef inline bint are_equal(const Run* left, const Run* right) noexcept nogil:
    """Whether two neighbors can be one run; `left` may begin a batch, `right` must not."""
    return (
        left.last + 1 == right.first and left.state == right.state and left.deliveries == right.deliveries
        and left.holder == right.holder and left.deadline_ms == right.deadline_ms
        and left.flags | BATCH_START == right.flags | BATCH_START and not right.flags & BATCH_START
    )


cdef class Runs:
    """Has no bound of its own: partition.max.record.locks bounds the records, and so the runs."""

    def __dealloc__(self):
        free(self.items)

    cdef Py_ssize_t floor(self, int64_t offset) noexcept nogil:
        """The index of the last run that begins at or before `offset`; -1 if there is none."""
        cdef Py_ssize_t low = 0, high = self.count, middle
        while low < high:
            middle = (low + high) // 2
            if self.at(middle).first <= offset:
                low = middle + 1
            else:
                high = middle
        return low - 1

    cdef Py_ssize_t first_from(self, int64_t offset) noexcept nogil:
        """The index of the first run that ends at or after `offset`; `count` if there is none."""
        cdef Py_ssize_t index = self.floor(offset)
        if index < 0 or self.at(index).last < offset:
            index += 1
        return index

    cdef Py_ssize_t batch_start(self, Py_ssize_t index) noexcept nogil:
        """The index of the first run of the batch of this run."""
        while not self.at(index).flags & BATCH_START:
            index -= 1
        return index

    cdef Py_ssize_t batch_end(self, Py_ssize_t index) noexcept nogil:
        """The index of the last run of the batch of this run."""
        index += 1
        while index < self.count and not self.at(index).flags & BATCH_START:
            index += 1
        return index - 1

    cdef int insert(self, Py_ssize_t index, const Run* run) except -1:
        """Put a copy of `run`, which must not be in the table, in front of the run at `index`."""
        cdef Run* grown
        cdef Py_ssize_t capacity
        if self.head + self.count == self.capacity:
            if self.head > self.capacity // 2:
                memmove(self.items, self.at(0), <size_t>self.count * sizeof(Run))
                self.head = 0
            else:
                capacity = self.capacity + self.capacity // 2 if self.capacity else CAPACITY_MIN
                grown = <Run*>realloc(self.items, <size_t>capacity * sizeof(Run))
                if grown == NULL:
                    raise MemoryError("no memory for records in flight")
                self.items = grown
                self.capacity = capacity
        memmove(self.at(index + 1), self.at(index), <size_t>(self.count - index) * sizeof(Run))
        self.at(index)[0] = run[0]
        self.count += 1
        return 0

    cdef Py_ssize_t cut(self, Py_ssize_t index, int64_t first, int64_t last) except -1:
        """Cut the run at `index` so that one run has exactly its records from `first` to `last`; returns the index of that."""
        cdef Run piece
        if self.at(index).first < first:
            piece = self.at(index)[0]
            piece.last = first - 1
            self.insert(index, &piece)
            index += 1
            self.at(index).first = first
            self.at(index).flags &= ~BATCH_START
        if self.at(index).last > last:
            piece = self.at(index)[0]
            piece.first = last + 1
            piece.flags &= ~BATCH_START
            self.insert(index + 1, &piece)
            self.at(index).last = last
        return index

    cdef void remove_head(self, Py_ssize_t count) noexcept nogil:
        self.head += count
        self.count -= count
        if self.count == 0:
            self.head = 0

    cdef void clear(self) noexcept nogil:
        """Remove all runs, and free the memory."""
        free(self.items)
        self.items = NULL
        self.head = self.count = self.capacity = 0

    cdef void join(self, int64_t first, int64_t last) noexcept nogil:
        """Make one run of equal neighbors, for the runs between `first` and `last`, and those beside them."""
        cdef Py_ssize_t begin = self.floor(first - 1), end, kept, index
        if begin < 0:
            begin = 0
        end = self.floor(last + 1) + 1
        if end - begin < 2:
            return
        kept = begin
        for index in range(begin + 1, end):
            if are_equal(self.at(kept), self.at(index)):
                self.at(kept).last = self.at(index).last
            else:
                kept += 1
                if kept != index:
                    self.at(kept)[0] = self.at(index)[0]
        kept += 1
        if kept < end:
            memmove(self.at(kept), self.at(end), <size_t>(self.count - end) * sizeof(Run))
            self.count -= end - kept

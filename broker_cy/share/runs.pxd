from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t

# States of a record, as the share coordinator stores them; ACQUIRED is never stored.
cdef enum:
    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

cdef enum:
    BATCH_START = 1                 # the first run of a batch
    PENDING = 2                     # `state` is tentative until the write of it ends; it was ACQUIRED by `holder` before, if any
    EXPIRED = 4                     # the lock ended while the run was PENDING
    STAYS = 8                       # archived while it was PENDING: it stays so even if the write fails

# Neighboring records of one batch that have everything in common: 32 bytes.
cdef struct Run:
    int64_t first
    int64_t last
    int64_t deadline_ms             # when the lock ends; 0 without a lock
    int32_t holder                  # a number of Holders; 0 without a lock
    int16_t deliveries
    uint8_t state
    uint8_t flags


cdef inline bint is_terminal(const Run* run) noexcept nogil:
    return run.state == ACKNOWLEDGED or run.state == ARCHIVED


cdef inline bint is_available(const Run* run) noexcept nogil:
    """Whether its records can be acquired."""
    return run.state == AVAILABLE and not run.flags & PENDING


# Runs in ascending order without overlaps, in one piece of memory. Offsets between two runs are in no run.
cdef class Runs:
    cdef Run* items
    cdef Py_ssize_t head            # index of the first run in `items`
    cdef Py_ssize_t count
    cdef Py_ssize_t capacity

    cdef inline Run* at(self, Py_ssize_t index) noexcept nogil:
        return self.items + self.head + index

    cdef inline Run* last(self) noexcept nogil:
        """The last run; the table must not be empty."""
        return self.items + self.head + self.count - 1

    cdef Py_ssize_t floor(self, int64_t offset) noexcept nogil
    cdef Py_ssize_t first_from(self, int64_t offset) noexcept nogil
    cdef Py_ssize_t batch_start(self, Py_ssize_t index) noexcept nogil
    cdef Py_ssize_t batch_end(self, Py_ssize_t index) noexcept nogil
    cdef int insert(self, Py_ssize_t index, const Run* run) except -1
    cdef Py_ssize_t cut(self, Py_ssize_t index, int64_t first, int64_t last) except -1
    cdef void remove_head(self, Py_ssize_t count) noexcept nogil
    cdef void clear(self) noexcept nogil
    cdef void join(self, int64_t first, int64_t last) noexcept nogil

"""The wait of share fetches for new records of one partition."""

cimport cython
from libc.stdint cimport int64_t

from broker_cy.replica.flush_group cimport DelayedFetch, FlushedPartition
from broker_cy.replica.partition cimport Partition


@cython.final
cdef class AdvanceWait(DelayedFetch):
    """Calls `advanced(whether the partition is still served)` each time that the high watermark has moved, between `begin` and `end`."""
    cdef Partition partition
    cdef object advanced

    def __init__(self, Partition partition not None, advanced):
        self.partition = partition
        self.advanced = advanced

    def begin(self):
        self.partition.add_waiting(self)

    def end(self):
        self.partition.remove_waiting(self)

    cdef int on_advance(self, FlushedPartition partition, Py_ssize_t written_bytes) except -1:
        self.advanced(written_bytes >= 0)
        return 0


def fetch_bound(Partition partition not None, bint is_read_committed):
    """The first offset that may not be read: the high watermark, or the last stable offset."""
    return partition.fetch_bound(is_read_committed)


def count_fetch(Partition partition not None, int64_t size):
    """Count a fetch that returned `size` bytes of records, as Fetch does."""
    partition.fetches += 1
    partition.fetched_bytes += size

"""End-to-end latency, from the due time of the produce request until the record is consumed.

The producing thread writes due times and the consuming thread matches them, both without a lock. A batch is identified
by its partition and base offset. It may arrive before the producing thread has read the response with the base offset;
the arrival and its time are then kept until the offset is known.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport calloc, free

from bench.measuring.histogram cimport Histogram
from bench.wire.system cimport load_acquire, store_release


cdef int64_t PATIENCE_NS = 2 * <int64_t> 1000000000      # after this time, an arrival without a due time is dropped


cdef class DueTimes:
    """Due times of the last batches of each partition, written by one thread and read by another.

    `least_records` is the smallest number of records in a batch: no two batches have the same
    base offset // least_records, which is therefore the index. Bound: ENTRIES_MAX in total, divided evenly among the
    partitions; a newer batch overwrites an older one.
    """

    def __cinit__(self, int partitions, int64_t least_records):
        cdef int64_t i
        if partitions < 1 or least_records < 1:
            raise ValueError(f"{partitions} partitions, batches of {least_records} records: both must be at least 1")
        self.partitions, self.least_records = partitions, least_records
        self.per_partition = max(1, ENTRIES_MAX // partitions)
        self.entries = <Due*> calloc(partitions * self.per_partition, sizeof(Due))
        if self.entries is NULL:
            raise MemoryError
        for i in range(partitions * self.per_partition):
            self.entries[i].base_offset = -1

    def __dealloc__(self):
        free(self.entries)

    cdef void publish(self, int32_t partition, int64_t base_offset, int64_t due_ns) noexcept nogil:
        cdef Due* entry
        if not 0 <= partition < self.partitions or base_offset < 0:
            return
        entry = &self.entries[partition * self.per_partition + base_offset // self.least_records % self.per_partition]
        store_release(&entry.base_offset, -1)
        store_release(&entry.due_ns, due_ns)
        store_release(&entry.base_offset, base_offset)

    cdef int64_t find(self, int32_t partition, int64_t base_offset) noexcept nogil:
        """Return the due time, or -1 if it is unknown."""
        cdef Due* entry
        cdef int64_t due_ns
        if not 0 <= partition < self.partitions or base_offset < 0:
            return -1
        entry = &self.entries[partition * self.per_partition + base_offset // self.least_records % self.per_partition]
        if load_acquire(&entry.base_offset) != base_offset:
            return -1
        due_ns = load_acquire(&entry.due_ns)
        return due_ns if load_acquire(&entry.base_offset) == base_offset else -1


cdef class Arrivals:
    """Batches that the consuming thread saw: `latency` (ns, one value each), `unmatched` those without a due time."""

    def __cinit__(self, DueTimes due_times not None):
        self.due_times = due_times
        self.latency = Histogram()
        self.waiting = <Arrival*> calloc(WAITING_MAX, sizeof(Arrival))
        if self.waiting is NULL:
            raise MemoryError

    def __dealloc__(self):
        free(self.waiting)

    cdef void arrived(self, int32_t partition, int64_t base_offset, int64_t at_ns) noexcept nogil:
        cdef int64_t due_ns = self.due_times.find(partition, base_offset)
        cdef Arrival* arrival
        if due_ns >= 0:
            self.latency.record(at_ns - due_ns)
            return
        if self.count == WAITING_MAX:
            self.unmatched += 1
            return
        arrival = &self.waiting[(self.first + self.count) % WAITING_MAX]
        arrival.partition, arrival.base_offset, arrival.at_ns = partition, base_offset, at_ns
        self.count += 1

    cdef void match(self, int64_t most, int64_t now) noexcept nogil:
        """Look up the due times of the `most` oldest waiting arrivals again; those without one are queued again."""
        cdef Arrival arrival
        cdef int64_t left = min(most, self.count)
        while left > 0:
            left -= 1
            arrival = self.waiting[self.first % WAITING_MAX]
            self.first += 1
            self.count -= 1
            if now - arrival.at_ns > PATIENCE_NS and self.due_times.find(arrival.partition, arrival.base_offset) < 0:
                self.unmatched += 1
            else:
                self.arrived(arrival.partition, arrival.base_offset, arrival.at_ns)

    def clear(self):
        """Discard all arrivals, before a run."""
        self.latency = Histogram()
        self.count = self.first = self.unmatched = 0

    def finish(self):
        """Match the waiting arrivals after the last arrival and the last response; the rest is unmatched."""
        self.match(self.count, 0)
        self.unmatched += self.count
        self.count = 0

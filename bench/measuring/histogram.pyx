"""Log-linear histogram of non-negative integers (nanoseconds here) that merges exactly.

Each power of two is divided into 128 equal buckets, so a percentile is at most 1/128 (0.8 %) above the recorded value;
values below 128 have a bucket each. The whole int64 range fits: nothing is clamped.
"""

from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free

cdef enum:
    SUB_BITS = 7
    SUB_BUCKETS = 128           # 1 << SUB_BITS
    BUCKETS = 7296              # (63 - SUB_BITS + 1) * SUB_BUCKETS: exponents SUB_BITS..62, and the linear part


cdef extern from *:
    int clzll "__builtin_clzll"(unsigned long long) nogil


cdef inline int bucket_of(int64_t value) noexcept nogil:
    cdef int shift
    if value < SUB_BUCKETS:
        return <int> value
    shift = 63 - clzll(<unsigned long long> value) - SUB_BITS
    return (shift << SUB_BITS) + <int> (value >> shift)


cdef inline int64_t highest_in(int bucket) noexcept nogil:
    cdef int shift = (bucket >> SUB_BITS) - 1
    if shift < 0:
        return bucket
    return <int64_t> (((<uint64_t> (bucket - (shift << SUB_BITS)) + 1) << shift) - 1)


cdef inline int64_t lowest_in(int bucket) noexcept nogil:
    return 0 if bucket == 0 else highest_in(bucket - 1) + 1


cdef class Histogram:
    """Counts per bucket; `record` takes any int64, `percentile` returns a value in the recorded unit."""

    def __cinit__(self):
        self.counts = <uint64_t*> calloc(BUCKETS, sizeof(uint64_t))
        if self.counts is NULL:
            raise MemoryError
        self.highest = -1

    def __dealloc__(self):
        free(self.counts)

    cdef void record(self, int64_t value) noexcept nogil:
        if value < 0:
            self.negative += 1
            return
        self.counts[bucket_of(value)] += 1
        self.count += 1
        if value > self.highest:
            self.highest = value

    def add(self, int64_t value):
        """Record one value."""
        self.record(value)

    def merge(self, Histogram other not None):
        """Add the values of `other`, as if they had been recorded here."""
        cdef int bucket
        for bucket in range(BUCKETS):
            self.counts[bucket] += other.counts[bucket]
        self.count += other.count
        self.negative += other.negative
        self.highest = max(self.highest, other.highest)

    def percentile(self, double percent):
        """Return the smallest bucket bound that at least `percent` (0-100] of the values do not exceed, or `highest`.

        Raises ValueError when the histogram is empty or the percentage out of range.
        """
        cdef uint64_t need, seen = 0
        cdef int bucket
        if not 0 < percent <= 100:
            raise ValueError(f"percentile must be above 0 and at most 100, not {percent}")
        if self.count == 0:
            raise ValueError("an empty histogram has no percentiles")
        need = <uint64_t> (self.count * percent / 100)
        if need * 100.0 < self.count * percent or need == 0:    # round up: the value of rank ceil(count * percent)
            need += 1
        for bucket in range(BUCKETS):
            seen += self.counts[bucket]
            if seen >= need:
                return min(highest_in(bucket), self.highest)
        return self.highest

    def mean(self):
        """Return the average of the values, each counted as the middle of its bucket (at most 1/256 off).

        Raises ValueError when the histogram is empty.
        """
        cdef double total = 0
        cdef int bucket
        cdef int64_t above
        if self.count == 0:
            raise ValueError("an empty histogram has no mean")
        for bucket in range(BUCKETS):
            if self.counts[bucket]:
                above = min(highest_in(bucket), self.highest)
                total += <double> self.counts[bucket] * (<double> lowest_in(bucket) + <double> above) / 2
        return total / self.count

    def buckets(self):
        """Return (highest value, count) of each bucket with values, ascending; none is above `highest`."""
        return [
            (min(highest_in(bucket), self.highest), self.counts[bucket])
            for bucket in range(BUCKETS) if self.counts[bucket]
        ]

    def state(self):
        """Return the state for a copy in another process: (negative, highest, ((bucket, count), ...))."""
        pairs = tuple([(bucket, self.counts[bucket]) for bucket in range(BUCKETS) if self.counts[bucket]])
        return self.negative, self.highest, pairs

    @staticmethod
    def from_state(state):
        """Return the histogram with this `state()`. Raises ValueError if the state is invalid."""
        cdef Histogram made = Histogram()
        cdef uint64_t count
        cdef int bucket, last = -1
        negative, highest, pairs = state
        for index, held in pairs:
            if not last < index < BUCKETS:
                raise ValueError(f"bucket {index} is out of order or range (allowed: {last + 1} to {BUCKETS - 1})")
            if not 0 < held < 1 << 63:
                raise ValueError(f"bucket {index} holds {held} (allowed: 1 to 2^63 - 1)")
            bucket = last = index
            count = held
            made.counts[bucket] = count
            made.count += count
        if not 0 <= negative < 1 << 63:
            raise ValueError(f"{negative} negative values (allowed: 0 to 2^63 - 1)")
        if last < 0:
            if highest != -1:
                raise ValueError(f"the highest value of no values is {highest} (allowed: -1)")
        elif not lowest_in(last) <= highest <= highest_in(last):
            raise ValueError(
                f"highest value {highest} is not in the last bucket (allowed: {lowest_in(last)} to {highest_in(last)})"
            )
        made.negative = negative
        made.highest = highest
        return made

    def __reduce__(self):
        return Histogram.from_state, (self.state(),)

"""Reading the histograms of the .pxd: quantiles, differences and the cumulative counts of Prometheus."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.string cimport memcpy, memset

# The upper bounds of the buckets for Prometheus, as powers of two of the unit: 16.384 us, 32.768 us ... 68.7 s. At each power of
# two one of our buckets ends, so the cumulative counts are exact.
FIRST_REPORTED_EXPONENT = 8
LAST_REPORTED_EXPONENT = 30
BOUNDS_S = tuple((1 << (exponent + 6)) / 1e9 for exponent in range(FIRST_REPORTED_EXPONENT, LAST_REPORTED_EXPONENT + 1))


cdef int64_t upper_ns(int bucket) noexcept nogil:
    """The upper bound of the bucket."""
    cdef int exponent
    if bucket < SUB_BUCKETS:
        return <int64_t>(bucket + 1) << UNIT_SHIFT
    exponent = bucket // SUB_BUCKETS + 3
    return <int64_t>(SUB_BUCKETS + bucket % SUB_BUCKETS + 1) << (exponent - SUB_BITS + UNIT_SHIFT)


cdef object snapshot_of(const LatencyHistogram* histogram):
    return Snapshot(PyBytes_FromStringAndSize(<const char*>histogram, sizeof(LatencyHistogram)))


cdef class Snapshot:
    """The counts of a histogram at one moment. `later - earlier` has the counts between the two."""
    cdef LatencyHistogram values

    def __init__(self, bytes raw=None):
        memset(&self.values, 0, sizeof(self.values))
        if raw is not None:
            if len(raw) != sizeof(self.values):
                raise ValueError(f"a histogram is {sizeof(self.values)} bytes, not {len(raw)}")
            memcpy(&self.values, PyBytes_AS_STRING(raw), sizeof(self.values))

    @property
    def count(self):
        return self.values.count

    @property
    def sum_ns(self):
        return self.values.sum_ns

    @property
    def max_ns(self):
        """The largest value; in a difference, the upper bound of the highest bucket that grew, if that is less."""
        return self.values.max_ns

    def quantile_ns(self, double quantile):
        """The value at `quantile` (0 to 1): at least this fraction of all values is not larger. 0 without values."""
        cdef uint64_t rank, seen = 0
        cdef int bucket
        if not 0 <= quantile <= 1:
            raise ValueError(f"a quantile is from 0 to 1, not {quantile}")
        if self.values.count == 0:
            return 0
        rank = <uint64_t>(quantile * self.values.count)
        if rank < 1:
            rank = 1
        if rank < quantile * self.values.count:
            rank += 1
        for bucket in range(BUCKETS):
            seen += self.values.counts[bucket]
            if seen >= rank:
                return min(upper_ns(bucket), <int64_t>self.values.max_ns)
        return self.values.max_ns

    def cumulative(self):
        """The number of values below each of BOUNDS_S."""
        cdef uint64_t seen = 0
        cdef int bucket = 0
        cdef int end
        found = []
        for exponent in range(FIRST_REPORTED_EXPONENT, LAST_REPORTED_EXPONENT + 1):
            end = (exponent - 3) * SUB_BUCKETS
            while bucket < end:
                seen += self.values.counts[bucket]
                bucket += 1
            found.append(seen)
        return found

    def __sub__(self, Snapshot earlier not None):
        cdef Snapshot result = Snapshot()
        cdef int bucket
        cdef int highest = -1
        result.values.count = self.values.count - earlier.values.count
        result.values.sum_ns = self.values.sum_ns - earlier.values.sum_ns
        for bucket in range(BUCKETS):
            result.values.counts[bucket] = self.values.counts[bucket] - earlier.values.counts[bucket]
            if result.values.counts[bucket]:
                highest = bucket
        if highest == BUCKETS - 1:
            result.values.max_ns = self.values.max_ns
        elif highest >= 0:
            result.values.max_ns = min(<uint64_t>upper_ns(highest), self.values.max_ns)
        return result


cdef class Histogram:
    def __cinit__(self):
        memset(&self.values, 0, sizeof(self.values))

    def observe_ns(self, int64_t ns):
        """Count one value, which must not be negative."""
        observe(&self.values, ns)

    def snapshot(self):
        return snapshot_of(&self.values)

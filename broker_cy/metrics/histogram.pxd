"""Latency histograms that cost a few instructions per value, in C structs.

Log-linear buckets, as in HdrHistogram: SUB_BUCKETS per power of two, so that a quantile is at most 1/SUB_BUCKETS too high.
The unit is 64 ns, the largest value about 137 s; larger values are counted in the last bucket, but are exact in `sum_ns` and
`max_ns`.
"""

from libc.stdint cimport int64_t, uint64_t

cdef enum:
    UNIT_SHIFT = 6                  # 64 ns
    SUB_BITS = 4
    SUB_BUCKETS = 16
    BUCKETS = 448                   # up to 2^31 units

cdef struct LatencyHistogram:
    uint64_t count
    uint64_t sum_ns
    uint64_t max_ns
    uint64_t counts[BUCKETS]

cdef extern from *:
    """
    #include <stdint.h>
    static inline int bc_bucket_of(uint64_t units) {
        int exponent;
        if (units < 16) return (int)units;
        exponent = 63 - __builtin_clzll(units);
        if (exponent > 30) return 447;
        return (exponent - 3) * 16 + (int)((units >> (exponent - 4)) & 15);
    }
    """
    int bucket_of "bc_bucket_of"(uint64_t units) noexcept nogil

cdef inline void observe(LatencyHistogram* histogram, int64_t ns) noexcept nogil:
    """Count one value. It must not be negative: a difference of two readings of the monotonic clock is not."""
    histogram.count += 1
    histogram.sum_ns += <uint64_t>ns
    if <uint64_t>ns > histogram.max_ns:
        histogram.max_ns = <uint64_t>ns
    histogram.counts[bucket_of(<uint64_t>ns >> UNIT_SHIFT)] += 1

cdef class Histogram:
    """One histogram as a Python object, for use outside the data path."""
    cdef LatencyHistogram values

cdef object snapshot_of(const LatencyHistogram* histogram)

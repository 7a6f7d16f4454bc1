"""How much one entity has used of one quota: a rate over windows, as Kafka's Rate over a SampledStat measures it.

A rate has `windows` + 1 samples. A sample begins with the first use after the previous one is `window_ms` old, and counts until
nothing was added to it for all windows. The rate is over the time since the oldest sample began, and over at least `windows` - 1
whole windows and the elapsed part of the current one.

Kafka throttles clients by this rate, and forgets a window as a whole: a client that always has more to send alternates between
bursts and waits, and gets up to half less than its quota. `PacedRate` measures the same rate, and throttles clients by a token
bucket (like KIP-599 for changes of partitions): as with Kafka, a burst may use the unused quota of the last `windows` - 1 windows.
Over any longer time a client gets exactly its quota.
"""

from libc.stdint cimport int32_t, int64_t

cdef struct Sample:
    double value
    int64_t start_ms
    int64_t last_ms

cdef class Rate:
    cdef public double limit            # a second
    cdef readonly int windows
    cdef readonly int64_t window_ms
    cdef int64_t wait_ms_max            # longer waits are shortened to this
    cdef Sample* samples                # windows + 1
    cdef int used
    cdef int current
    # The result of `scan`, valid until a sample begins or expires.
    cdef double total
    cdef int64_t oldest_ms
    cdef int64_t scan_at_ms
    cdef int64_t span_ms                # over which `measure` has measured
    cdef readonly int64_t last_ms       # when something was added last
    cdef readonly tuple entity          # (user, client id) that it counts for
    cdef readonly int64_t waits         # how often clients were throttled, and for how long
    cdef readonly int64_t waited_ms

    cdef int add(self, double value, int64_t now_ms) except -1
    cdef int scan(self, int64_t now_ms) noexcept
    cdef double measure(self, int64_t now_ms) noexcept
    cdef int64_t wait_of(self, int64_t now_ms) noexcept
    cdef int64_t charge_at(self, double value, int64_t now_ms) except -1

cdef class PacedRate(Rate):
    cdef double credit                  # may be used now; negative: the client is throttled until it is 0
    cdef int64_t credit_ms              # when it was that

    cdef double most(self) noexcept     # that may be used in a burst
    cdef double credit_at(self, int64_t now_ms) noexcept
    # The part of `wanted` bytes that a fetch may get: the bytes that the quota allows now, or, if that is less, those of a window,
    # after a throttle time.
    cpdef int32_t allowed(self, int32_t wanted, int64_t now_ms) noexcept

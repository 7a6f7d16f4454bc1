"""The clock that is passed to all code that needs the time.

The functions read the machine's clocks, or the fields of a stopped clock: one well-predicted branch, so that a broker under virtual
time runs the same code. They take a pointer, because an object as an argument would cost more than the branch.
"""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <stdint.h>
    #include <time.h>
    static inline int64_t bc_clock_ns(clockid_t which) {
        struct timespec t;
        clock_gettime(which, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    }
    static inline int64_t bc_clock_ms(clockid_t which) {
        struct timespec t;
        clock_gettime(which, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
    }
    """
    enum:
        CLOCK_REALTIME
        CLOCK_MONOTONIC
        CLOCK_MONOTONIC_COARSE
    int64_t machine_ns "bc_clock_ns"(int which) noexcept nogil
    int64_t machine_ms "bc_clock_ms"(int which) noexcept nogil

cdef struct TimeSource:
    bint is_manual                  # if not, the others are unused
    int64_t wall_ms
    int64_t ns

cdef class Clock:
    cdef TimeSource source

cdef class ManualClock(Clock):
    pass


cdef inline int64_t now_ns(const TimeSource* source) noexcept nogil:
    """Monotonic nanoseconds."""
    return source.ns if source.is_manual else machine_ns(CLOCK_MONOTONIC)


cdef inline int64_t coarse_ms(const TimeSource* source) noexcept nogil:
    """Monotonic milliseconds, a few ms coarse on the machine's clock, and cheap: for idle times and long waits."""
    return source.ns // 1000000 if source.is_manual else machine_ms(CLOCK_MONOTONIC_COARSE)


cdef inline int64_t wall_ms(const TimeSource* source) noexcept nogil:
    """Milliseconds since 1970 (UTC)."""
    return source.wall_ms if source.is_manual else machine_ms(CLOCK_REALTIME)

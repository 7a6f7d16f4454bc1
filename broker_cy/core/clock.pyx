"""Time as an argument: code that needs the time receives a Clock, so that tests and simulations control it."""

import time


cdef class Clock:
    """The machine's clocks. Record timestamps come from the wall clock, intervals from the monotonic one."""

    def wall_ms(self):
        """Milliseconds since 1970 (UTC), as in Kafka's timestamps; may jump when the machine's clock is set."""
        return wall_ms(&self.source)

    def monotonic(self):
        """Seconds since an arbitrary moment; never goes back. The same scale as the event loop's `time()`."""
        return now_ns(&self.source) / 1e9

    def both_ms(self):
        """`wall_ms`, and `monotonic` in whole milliseconds."""
        return wall_ms(&self.source), <int64_t>(now_ns(&self.source) / 1e9 * 1000)

    def monotonic_ns(self):
        """`monotonic` in nanoseconds."""
        return now_ns(&self.source)

    def sleep(self, double seconds):
        """Let this much time pass; blocks, so only for worker threads."""
        time.sleep(seconds)


cdef class ManualClock(Clock):
    """Stands still until it is advanced: time in tests and simulations. Each simulated broker may have its own."""

    def __init__(self, int64_t wall_ms=1_700_000_000_000):
        self.source.is_manual = True
        self.source.wall_ms = wall_ms
        self.source.ns = 0

    def advance_ms(self, int64_t ms):
        """Move both clocks forward by `ms` milliseconds. Raises ValueError if negative."""
        if ms < 0:
            raise ValueError(f"a clock cannot be advanced by {ms} ms; use set_wall_ms for a jump back")
        self.advance_ns(ms * 1_000_000)

    def advance_ns(self, int64_t ns):
        """Move both clocks forward by `ns` nanoseconds, the wall clock in steps of a whole millisecond of the other one. Raises
        ValueError if negative.
        """
        if ns < 0:
            raise ValueError(f"a clock cannot be advanced by {ns} ns; use set_wall_ms for a jump back")
        self.source.wall_ms += (self.source.ns % 1_000_000 + ns) // 1_000_000
        self.source.ns += ns

    def set_wall_ms(self, int64_t wall_ms):
        """Set the wall clock alone, forwards or back, as an operator would."""
        self.source.wall_ms = wall_ms

    def sleep(self, double seconds):
        """Return immediately, with both clocks advanced by `seconds`."""
        self.advance_ns(<int64_t>(seconds * 1e9))


# For programs that are not part of a broker; a broker gets its clock from network.seams.
MACHINE_CLOCK = Clock()

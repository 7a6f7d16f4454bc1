# cython: cdivision=True
"""The use of one quota by one entity; the .pxd describes its measurement."""

from libc.math cimport ceil, floor
from libc.stdlib cimport calloc, free

cdef int64_t WAIT_MS_MAX = 0x7fffffff   # throttle_time_ms is an int32

cdef class Rate:
    def __cinit__(self, tuple entity, double limit, int windows, int64_t window_ms, int64_t now_ms,
                  int64_t wait_ms_max=WAIT_MS_MAX):
        if windows < 1 or window_ms < 1:
            raise ValueError(f"{windows} windows of {window_ms} ms")
        self.entity = entity
        self.limit = limit
        self.windows = windows
        self.window_ms = window_ms
        self.wait_ms_max = min(wait_ms_max, WAIT_MS_MAX)
        self.last_ms = now_ms
        self.samples = <Sample*>calloc(windows + 1, sizeof(Sample))
        if self.samples == NULL:
            raise MemoryError(f"no memory for {windows + 1} samples")

    def __dealloc__(self):
        free(self.samples)

    cdef int add(self, double value, int64_t now_ms) except -1:
        cdef Sample* sample = &self.samples[self.current]
        self.last_ms = now_ms
        if self.used == 0 or now_ms - sample.start_ms >= self.window_ms:
            if self.used:
                self.current = (self.current + 1) % (self.windows + 1)
            if self.current >= self.used:
                self.used = self.current + 1
            sample = &self.samples[self.current]
            sample.start_ms = now_ms
            sample.value = 0
            self.scan_at_ms = now_ms
        sample.value += value
        sample.last_ms = now_ms
        self.total += value
        return 0

    cdef int scan(self, int64_t now_ms) noexcept:
        """Forget the samples that are too old, and look at the others."""
        cdef int64_t kept_ms = self.windows * self.window_ms
        cdef int64_t first_ms = now_ms
        cdef Sample* sample
        cdef int i
        if self.used == 0:
            self.used = 1
            self.samples[0].start_ms = self.samples[0].last_ms = now_ms
        self.total = 0
        self.oldest_ms = now_ms
        for i in range(self.used):
            sample = &self.samples[i]
            if now_ms - sample.last_ms >= kept_ms:
                sample.value = 0
                sample.start_ms = sample.last_ms = now_ms
            else:
                self.total += sample.value
                self.oldest_ms = min(self.oldest_ms, sample.start_ms)
                first_ms = min(first_ms, sample.last_ms)
        self.scan_at_ms = first_ms + kept_ms
        return 0

    cdef double measure(self, int64_t now_ms) noexcept:
        """The rate a second; sets `span_ms`."""
        cdef int64_t full
        if now_ms >= self.scan_at_ms:
            self.scan(now_ms)
        self.span_ms = now_ms - self.oldest_ms
        full = self.span_ms // self.window_ms
        if full < self.windows - 1:
            self.span_ms += (self.windows - 1 - full) * self.window_ms
        if self.span_ms < 1:
            self.span_ms = 1
        return self.total / (self.span_ms / 1000.0)

    cdef int64_t wait_of(self, int64_t now_ms) noexcept:
        """How long until the rate is the limit again if nothing is added; 0 if it is not above."""
        cdef double rate, wait
        if now_ms >= self.scan_at_ms:
            self.scan(now_ms)
        if self.total * 1000 <= self.limit * ((self.windows - 1) * self.window_ms):
            return 0            # as much may be used in the shortest span
        rate = self.measure(now_ms)
        if not rate > self.limit:
            return 0
        if self.limit <= 0:
            return self.wait_ms_max
        wait = floor((rate - self.limit) / self.limit * self.span_ms + 0.5)
        return self.wait_ms_max if wait > self.wait_ms_max else <int64_t>wait

    cdef int64_t charge_at(self, double value, int64_t now_ms) except -1:
        self.add(value, now_ms)
        return self.wait_of(now_ms)

    # ---- for callers in Python ----

    def record(self, double value, int64_t now_ms):
        """Add a use; a negative value takes it back."""
        self.add(value, now_ms)

    def charge(self, double value, int64_t now_ms):
        """Add a use. Returns the client's throttle time."""
        return self.charge_at(value, now_ms)

    def rate(self, int64_t now_ms):
        return self.measure(now_ms)

    def wait_ms(self, int64_t now_ms):
        return self.wait_of(now_ms)

    def is_idle(self, int64_t now_ms):
        """Whether a new one would count the same."""
        return now_ms - self.last_ms >= self.windows * self.window_ms

    def note_wait(self, int64_t ms):
        self.waits += 1
        self.waited_ms += ms


cdef class PacedRate(Rate):
    """With a bound of waits, the debt is bounded, too: it is never more than the use that a burst may have."""

    def __init__(self, tuple entity, double limit, int windows, int64_t window_ms, int64_t now_ms,
                 int64_t wait_ms_max=WAIT_MS_MAX):
        self.credit = self.most()
        self.credit_ms = now_ms

    cdef double most(self) noexcept:
        return self.limit * (max(1, self.windows - 1) * self.window_ms) / 1000

    cdef double credit_at(self, int64_t now_ms) noexcept:
        if now_ms > self.credit_ms:
            self.credit += self.limit * (now_ms - self.credit_ms) / 1000
            self.credit_ms = now_ms
        if self.credit > self.most():
            self.credit = self.most()
        return self.credit

    cdef int add(self, double value, int64_t now_ms) except -1:
        self.credit_at(now_ms)
        self.credit -= value
        if self.wait_ms_max < WAIT_MS_MAX and self.credit < -self.most():
            self.credit = -self.most()
        return Rate.add(self, value, now_ms)

    cdef int64_t wait_of(self, int64_t now_ms) noexcept:
        cdef double credit = self.credit_at(now_ms)
        cdef double wait
        if not credit < 0:
            return 0
        if self.limit <= 0:
            return self.wait_ms_max
        # Rounded up: a client that comes back then is in time.
        wait = ceil(-credit * 1000 / self.limit)
        return self.wait_ms_max if wait > self.wait_ms_max else <int64_t>wait

    cpdef int32_t allowed(self, int32_t wanted, int64_t now_ms) noexcept:
        # Leave room for the fields around the records: an answer that is a little too large would have no records.
        cdef double largest = self.credit_at(now_ms) * 15 / 16
        largest = min(self.most(), max(largest, self.limit * self.window_ms / 1000))
        return <int32_t>largest if largest < wanted else wanted

    def is_idle(self, int64_t now_ms):
        return Rate.is_idle(self, now_ms) and not self.credit_at(now_ms) < self.most()

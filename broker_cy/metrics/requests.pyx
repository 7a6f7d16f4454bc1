"""The counters of requests; the .pxd describes them."""

from libc.stdlib cimport calloc, free
from libc.string cimport memset

from broker_cy.metrics.histogram cimport snapshot_of

PHASE_NAMES = {
    QUEUE: "queue", HANDLER: "handler", DISK: "disk", DATA: "data", OTHER: "other", SEND: "send", TOTAL: "total",
}


cdef class RequestMetrics:
    def __cinit__(self):
        self.on = True
        self.errors = {}
        memset(self.apis, 0, sizeof(self.apis))

    def __dealloc__(self):
        cdef int key, phase
        for key in range(METRIC_APIS):
            for phase in range(PHASES):
                free(self.apis[key].phases[phase])

    cdef LatencyHistogram* begin(self, int16_t key, int phase) except NULL:
        """Make the histogram of a phase that had none. Raises MemoryError."""
        cdef LatencyHistogram* histogram = <LatencyHistogram*>calloc(1, sizeof(LatencyHistogram))
        if histogram == NULL:
            raise MemoryError("no memory for a histogram")
        self.apis[key].phases[phase] = histogram
        return histogram

    cdef int error(self, int16_t key, int16_t code) except -1:
        """Count an error in a response. Bounded: only Kafka's 16-bit error codes reach this function."""
        cdef tuple place = (key, code)
        self.errors[place] = self.errors.get(place, 0) + 1
        return 0

    def read(self, int key):
        """(requests, request bytes, response bytes) of an API so far."""
        cdef ApiStats* stats = &self.apis[checked(key)]
        return stats.requests, stats.request_bytes, stats.response_bytes

    def keys(self):
        """The keys of the APIs that were requested so far."""
        cdef int key
        return [key for key in range(METRIC_APIS) if self.apis[key].requests]

    def phase(self, int key, int phase):
        """A Snapshot of the time that requests of an API spent in a phase; None without requests."""
        cdef LatencyHistogram* histogram
        if not 0 <= phase < PHASES:
            raise ValueError(f"a phase is from 0 to {PHASES - 1}, not {phase}")
        histogram = self.apis[checked(key)].phases[phase]
        return None if histogram == NULL else snapshot_of(histogram)

    def error_counts(self):
        """{(api key, error code): number of occurrences}."""
        return dict(self.errors)


cdef int checked(int key) except -1:
    if not 0 <= key < METRIC_APIS:
        raise ValueError(f"an API key is from 0 to {METRIC_APIS - 1}, not {key}")
    return key

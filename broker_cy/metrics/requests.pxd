"""The counters of each API: requests, errors, bytes, and time by phase.

The phases of a request: QUEUE is the time from its receipt (its last bytes were read) until its handler starts, HANDLER the time
until the handler returns. A response that is not ready then waits for the write or sync (DISK), for records (DATA), or for
something else, such as the members of a group (OTHER). SEND is the time from when the response is ready until the socket has
accepted all of it. TOTAL is the time from the receipt to the end of SEND.
"""

from libc.stdint cimport int16_t, int64_t, uint64_t

from broker_cy.metrics.histogram cimport LatencyHistogram, observe

cdef enum:
    METRIC_APIS = 128

cdef enum:
    OTHER = 0                       # the default phase in which a Reply waits
    QUEUE = 1
    HANDLER = 2
    DISK = 3
    DATA = 4
    SEND = 5
    TOTAL = 6
    PHASES = 7

cdef struct ApiStats:
    uint64_t requests
    uint64_t request_bytes
    uint64_t response_bytes
    LatencyHistogram* phases[PHASES]    # NULL until the first value

cdef class RequestMetrics:
    """The counters of one broker. Only the event loop writes them."""
    cdef public bint on                 # if not, nothing is counted, and no clock is read
    cdef ApiStats apis[METRIC_APIS]
    cdef dict errors                    # (api key, error code) -> number of occurrences in responses
    cdef readonly uint64_t hot_reads    # fetches answered from memory
    cdef readonly uint64_t cold_reads   # fetches for which at least a part was read from the disk first
    cdef readonly uint64_t hot_bytes
    cdef readonly uint64_t cold_bytes

    cdef LatencyHistogram* begin(self, int16_t key, int phase) except NULL
    cdef int error(self, int16_t key, int16_t code) except -1


cdef inline int count_time(RequestMetrics metrics, int16_t key, int phase, int64_t ns) except -1:
    """Count how long a request of this API spent in a phase."""
    cdef LatencyHistogram* histogram = metrics.apis[key].phases[phase]
    if histogram == NULL:
        histogram = metrics.begin(key, phase)
    observe(histogram, ns)
    return 0

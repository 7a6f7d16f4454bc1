from libc.stdint cimport int32_t, int64_t, uint8_t

from bench.histogram cimport Histogram


cdef enum:
    MAX_CONNECTIONS = 256
    RING_MAX = 8192             # requests in flight on one connection
    FRAME_MAX = 64 << 20        # bytes of one response
    IOV_MAX_USED = 128          # two per frame
    CORRELATION_AT = 8
    HEAD = 12                   # size, api key, version, correlation id: written per request
    PARTITIONS_MAX = 1024


cdef struct Template:
    const uint8_t* frame
    Py_ssize_t size
    int32_t partition, records
    Py_ssize_t offset_at
    int64_t batch_bytes


cdef struct Flight:             # one request between its due time and its answer
    int64_t due_ns
    int32_t template_index
    uint8_t head[HEAD]


cdef struct Conn:
    int fd
    bint wants_write
    Template* templates
    int template_count, next_template
    Flight* ring                # RING_MAX; absolute numbers below: answered <= flushed <= issued
    int64_t answered, flushed, issued
    Py_ssize_t partial          # bytes of request `flushed` that have left already
    uint8_t* inbox
    Py_ssize_t inbox_size, inbox_capacity


cdef class Driver:
    cdef Conn* conns
    cdef int count, epoll_fd
    cdef bint fetching, check_crc
    cdef list sockets, kept
    cdef object epoll
    cdef char problem[256]
    cdef readonly int64_t responses, errors, bytes, records
    cdef readonly Histogram latency, lateness
    cdef readonly double seconds, cpu_seconds
    cdef int64_t issued, total, last_answer_ns
    cdef int64_t next_offset[PARTITIONS_MAX]    # Produce: least base offset a new batch may get. Fetch: offset to ask for
    cdef int64_t wrap_at[PARTITIONS_MAX]

    cdef int _open(self, Conn* conn, address, templates) except -1
    cdef int _run(self, int depth, int64_t total, double interval_ns, double seconds) except -1
    cdef int _loop(self, int depth, double interval_ns, int64_t start, int64_t deadline) noexcept nogil
    cdef int _top_up(self, Conn* conn, int depth) noexcept nogil
    cdef int64_t _send_due(self, double interval_ns, int64_t start) noexcept nogil
    cdef void _issue(self, Conn* conn, int64_t due_ns) noexcept nogil
    cdef int _flush(self, Conn* conn) noexcept nogil
    cdef int _watch(self, Conn* conn, bint write) noexcept nogil
    cdef int _receive(self, Conn* conn) noexcept nogil
    cdef int _answer(self, Conn* conn, const uint8_t* p, Py_ssize_t size) noexcept nogil
    cdef int _fail(self, const char* form, const char* detail) noexcept nogil
    cdef int _fail_number(self, const char* form, int64_t number) noexcept nogil

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from bench.wire.sequences cimport Producer


cdef enum:
    MAX_CONNECTIONS = 10000
    PARTITIONS_MAX = 10000
    RING_MAX = 8192             # requests in flight on one connection, 24 bytes each
    FLIGHTS_MAX = 10240000      # requests in flight on all connections: 250 MB if a target owes that many responses
    RING_MIN = 16
    INBOX_MIN = 1 << 10         # it grows on demand: to INBOX_STEP, and further for a larger response
    INBOX_STEP = 64 << 10
    FRAME_MAX = 65 << 20        # bytes of one response
    IOV_MAX_USED = 192          # at most four per frame
    RECORD = 16384              # the plaintext of one record of TLS
    EVENTS = 256                # returned by one epoll call
    CORRELATION_AT = 8
    HEAD = 12                   # size, api key, version, correlation id: written per request
    FETCH_STRIDE = 33           # bytes of one partition in a Fetch request


cdef struct Slot:               # one partition on one connection
    int32_t partition
    int64_t next_offset         # Produce: lowest base offset that a new batch may get. Fetch: offset to fetch
    int64_t wrap_from, wrap_at  # Fetch: at offset wrap_at, continue at wrap_from; wrap_at 0: follow the end of the log
    int32_t sequence            # Produce with a producer id: sequence number of the next batch
    int64_t sent, acknowledged  # and records since it has this producer id


cdef struct Template:
    const uint8_t* frame        # with the head; if payload is not NULL, the bytes before it
    const uint8_t* payload      # shared by many templates
    Py_ssize_t frame_size, size  # of `frame`, and of the whole
    int32_t* slots              # indices into the connection's slots, in the order of the frame
    int32_t slot_count, records
    Py_ssize_t offset_at        # Fetch: position of the first partition's offset
    int64_t batch_bytes
    const uint32_t* shift       # with a producer id: of the batch's bytes after its header, see bench.wire.sequences
    uint32_t records_crc


cdef struct Flight:             # one request between its due time and its response
    int64_t due_ns
    int32_t template_index
    uint8_t head[HEAD]


cdef struct Conn:
    int fd
    bint wants_write, dead
    bint is_tls, is_pending     # with TLS; more is decrypted than there was room for
    Template* templates
    int template_count, next_template
    Slot* slots
    int slot_count
    Flight* ring                # ring_size; absolute numbers below: answered <= flushed <= issued <= released
    int64_t ring_size
    uint8_t* headers            # with a producer id: of each flight's batch, in the ring's order; else NULL
    Producer producer
    int64_t answered, flushed, issued, released
    int64_t counted_from        # requests before this number belong to a run that was stopped
    int64_t heard_ns            # when data last arrived, or the pipeline was last empty
    Py_ssize_t partial          # bytes of request `flushed` that are sent already
    uint8_t* inbox
    Py_ssize_t inbox_size, inbox_capacity


cdef class Connections:
    cdef Conn* conns
    cdef int count, alive, epoll_fd
    cdef bint fetching, committed, unanswered, open_loop, giving_up
    cdef list addresses, sockets, kept, producers
    cdef dict shifts
    cdef char problem[256]
    cdef readonly int64_t errors
    cdef int64_t ring_cap, timeout_ns
    cdef int64_t begun, total, outstanding      # requests of this run: sent or due; in total; not answered yet

    cdef int _open(self, int index, templates) except -1
    cdef int _add_template(self, Conn* conn, int index, template, dict slots, int32_t* slot_list) except -1
    cdef int _sum_records(self, Template* made, bytes payload) except -1
    cdef int _connect(self, int index) except -1
    cdef int _lose(self, Conn* conn, const char* form, const char* detail, int64_t number) noexcept nogil

"""The load driver: one thread, one epoll, ready-made Produce and Fetch frames, every response checked.

It costs little so that the target is what is measured: a request in flight is a ring slot, a frame leaves by writev straight
from its template, and only the twelve bytes up to the correlation id are written per request. One `Driver` holds some
connections; `run_closed` keeps `depth` requests in flight on each, `run_open` sends on a schedule and takes each latency from
the time the request was DUE, so that a stalled target is charged for the requests it kept waiting.

Bounds: MAX_CONNECTIONS, RING_MAX requests in flight per connection, responses of FRAME_MAX bytes.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memmove, strerror
from posix.time cimport timespec

import resource
import select
import socket

from bench.histogram cimport Histogram
from bench.replies cimport Verdict, View, check_fetched, check_produced
from bench.system cimport (
    EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, bench_crc32c, epoll_ctl, epoll_event, epoll_pwait2, get32, iovec,
    now_ns, PR_SET_TIMERSLACK, prctl, put32, put64, recv, writev,
)


cdef int64_t GRACE_NS = 30 * <int64_t> 1000000000    # for the answers that are out when a run ends
cdef int64_t TICK_NS = 100000000
cdef int64_t SPIN_NS = 60000    # before a request is due the generator polls: waking from sleep takes about that long


class LoadError(Exception):
    """A response was wrong, late or missing: the run counts for nothing."""


def crc32c(data):
    """CRC-32C of a buffer."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return bench_crc32c(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


cdef class Driver:
    """Connections to one target, each with its cycle of request templates (bench.protocol.Template).

    `connections[i]` is the list of templates connection i sends in turn. All are Produce, or all are Fetch requests; Fetch
    starts at offset 0 of its partition and goes round at `wrap_at[partition]` (the log end offset).
    Raises LoadError for anything a correct target would not have answered, OSError where a connection fails.
    """

    def __cinit__(self, address, connections not None, *, bint fetching=False, dict wrap_at=None):
        if not 0 < len(connections) <= MAX_CONNECTIONS:
            raise ValueError(f"{len(connections)} connections; 1 to {MAX_CONNECTIONS} are possible")
        self.conns = <Conn*> calloc(len(connections), sizeof(Conn))
        if self.conns is NULL:
            raise MemoryError
        self.count = len(connections)

    def __init__(self, address, connections not None, *, bint fetching=False, dict wrap_at=None):
        cdef int i
        cdef epoll_event event
        self.fetching = fetching
        self.sockets, self.kept = [], []
        self.epoll = select.epoll()
        self.epoll_fd = self.epoll.fileno()
        for partition, end in (wrap_at or {}).items():
            if not 0 <= partition < PARTITIONS_MAX:
                raise ValueError(f"partition {partition}; 0 to {PARTITIONS_MAX - 1} are possible")
            self.wrap_at[partition] = end
        for i in range(self.count):
            self._open(&self.conns[i], address, connections[i])
            event.events = EPOLLIN
            event.data.u32 = i
            if epoll_ctl(self.epoll_fd, EPOLL_CTL_ADD, self.conns[i].fd, &event) < 0:
                raise OSError(errno, "epoll_ctl")

    cdef int _open(self, Conn* conn, address, templates) except -1:
        cdef int i
        sock = socket.create_connection(address, 30)
        self.sockets.append(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        conn.fd = sock.fileno()
        conn.inbox_capacity = (2 << 20) if self.fetching else (256 << 10)
        conn.inbox = <uint8_t*> malloc(conn.inbox_capacity)
        conn.ring = <Flight*> calloc(RING_MAX, sizeof(Flight))
        conn.templates = <Template*> calloc(len(templates), sizeof(Template))
        if conn.inbox is NULL or conn.ring is NULL or conn.templates is NULL:
            raise MemoryError
        conn.template_count = len(templates)
        for i in range(conn.template_count):
            frame, partition, records, batch_bytes, offset_at = templates[i]
            if not 0 <= partition < PARTITIONS_MAX:
                raise ValueError(f"partition {partition}; 0 to {PARTITIONS_MAX - 1} are possible")
            if self.fetching:
                frame = bytes(bytearray(frame))         # the offset is patched in place: never into a shared object
            self.kept.append(frame)
            conn.templates[i].frame = <const uint8_t*> PyBytes_AS_STRING(frame)
            conn.templates[i].size = PyBytes_GET_SIZE(frame)
            conn.templates[i].partition = partition
            conn.templates[i].records = records
            conn.templates[i].batch_bytes = batch_bytes
            conn.templates[i].offset_at = offset_at
        return 0

    def __dealloc__(self):
        cdef int i
        if self.conns is not NULL:
            for i in range(self.count):
                free(self.conns[i].inbox)
                free(self.conns[i].ring)
                free(self.conns[i].templates)
            free(self.conns)

    def close(self):
        """Close the connections."""
        for sock in self.sockets:
            sock.close()
        self.epoll.close()

    def next_offsets(self, int partitions):
        """Offset behind the last batch written (or the next to fetch), by partition."""
        cdef int i
        return {i: self.next_offset[i] for i in range(min(partitions, PARTITIONS_MAX))}

    # ------------------------------------------------------------------------------------------------ the two loops

    def run_closed(self, *, int depth, int64_t requests, double seconds, bint check_crc=False):
        """Keep `depth` requests in flight per connection until `requests` were sent or `seconds` passed; then drain.

        Fills the counters: responses, bytes (of batches), records, latency (ns from send), seconds, cpu_seconds (ours).
        """
        if not 0 < depth < RING_MAX or (self.fetching and depth != 1):
            raise ValueError(f"depth {depth}: 1 to {RING_MAX - 1}, and 1 for fetching")
        if requests <= 0:
            raise ValueError(f"{requests} requests: nothing to send")
        self.check_crc = check_crc
        self._run(depth, requests, 0, seconds)

    def run_open(self, *, double rate, double seconds):
        """Send request i at start + i / rate, in turn over the connections; latency counts from that time.

        `lateness` holds how much later than due each request was handed to the kernel: what the generator itself added.
        """
        if rate <= 0 or rate * seconds < 1 or self.fetching:
            raise ValueError(f"rate {rate}/s for {seconds} s: nothing to send, or this driver fetches")
        if prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) < 0:            # the default lets each sleep end 50 us late
            raise OSError(errno, "prctl(PR_SET_TIMERSLACK)")
        self._run(0, <int64_t> (rate * seconds), 1e9 / rate, seconds)

    cdef int _run(self, int depth, int64_t total, double interval_ns, double seconds) except -1:
        cdef int64_t started
        cdef int result
        self.responses = self.errors = self.bytes = self.records = self.issued = 0
        self.latency, self.lateness = Histogram(), Histogram()
        self.problem[0] = 0
        self.total = total
        cpu_before = _own_cpu()
        started = now_ns()
        with nogil:
            result = self._loop(depth, interval_ns, started, started + <int64_t> (seconds * 1e9))
        self.seconds = (self.last_answer_ns - started) / 1e9
        self.cpu_seconds = _own_cpu() - cpu_before
        PyErr_CheckSignals()
        if result < 0 or self.errors:
            raise LoadError(f"{(<bytes> self.problem).decode()} ({self.errors} errors in {self.responses} responses)")
        return 0

    cdef int _loop(self, int depth, double interval_ns, int64_t start, int64_t deadline) noexcept nogil:
        """Closed loop where interval_ns is 0, else the schedule; ends when everything issued is answered."""
        cdef int i, n
        cdef int64_t now, wait = TICK_NS
        cdef epoll_event events[64]
        cdef timespec timeout
        cdef Conn* conn
        for i in range(self.count):
            if self._top_up(&self.conns[i], depth) < 0:
                return -1
        while True:
            now = now_ns()
            if interval_ns > 0:
                wait = self._send_due(interval_ns, start)
                if wait < 0:
                    return -1
            elif now >= deadline:
                self.total = self.issued
            if self.issued >= self.total and self.responses == self.issued:
                return 0
            if now > deadline + GRACE_NS:
                return self._fail("the target did not answer within 30 s of the end%s", "")
            timeout.tv_sec, timeout.tv_nsec = 0, wait
            n = epoll_pwait2(self.epoll_fd, events, 64, &timeout, NULL)
            if n < 0:                                           # a signal ends the run, too
                return self._fail("epoll_wait: %s", strerror(errno))
            for i in range(n):
                conn = &self.conns[events[i].data.u32]
                if events[i].events & ~<uint32_t> EPOLLOUT and self._receive(conn) < 0:
                    return -1
                if self._top_up(conn, depth) < 0:
                    return -1

    cdef int _top_up(self, Conn* conn, int depth) noexcept nogil:
        cdef int64_t now = now_ns()
        while conn.issued - conn.answered < depth and self.issued < self.total:
            self._issue(conn, now)
        return self._flush(conn)

    cdef int64_t _send_due(self, double interval_ns, int64_t start) noexcept nogil:
        """Send what is due; returns how many ns may be slept until the next is (0: spin), or -1."""
        cdef int64_t due, now = now_ns()
        cdef Conn* conn
        while self.issued < self.total:
            due = start + <int64_t> (self.issued * interval_ns)
            if due > now:
                return max(0, due - now - SPIN_NS)
            conn = &self.conns[self.issued % self.count]
            if conn.issued - conn.answered >= RING_MAX:
                return self._fail_number("the target fell behind by %lld requests on one connection", RING_MAX)
            self._issue(conn, due)
            if self._flush(conn) < 0:
                return -1
            now = now_ns()
            self.lateness.record(now - due)
        return TICK_NS

    # ------------------------------------------------------------------------------------------------ one connection

    cdef void _issue(self, Conn* conn, int64_t due_ns) noexcept nogil:
        cdef Flight* flight = &conn.ring[conn.issued % RING_MAX]
        cdef Template* template = &conn.templates[conn.next_template]
        flight.due_ns = due_ns
        flight.template_index = conn.next_template
        memcpy(flight.head, template.frame, CORRELATION_AT)
        put32(flight.head + CORRELATION_AT, <int32_t> (conn.issued & 0x7FFFFFFF))
        if self.fetching:
            put64(<uint8_t*> template.frame + template.offset_at, self.next_offset[template.partition])
        conn.issued += 1
        self.issued += 1
        conn.next_template += 1
        if conn.next_template == conn.template_count:
            conn.next_template = 0

    cdef int _flush(self, Conn* conn) noexcept nogil:
        """Write what was issued; where the socket is full, wait for EPOLLOUT."""
        cdef iovec iov[IOV_MAX_USED]
        cdef int used
        cdef int64_t number
        cdef Py_ssize_t skip, wrote
        cdef Flight* flight
        cdef Template* template
        while conn.flushed < conn.issued:
            used, number, skip = 0, conn.flushed, conn.partial
            while number < conn.issued and used < IOV_MAX_USED:
                flight = &conn.ring[number % RING_MAX]
                template = &conn.templates[flight.template_index]
                if skip < HEAD:
                    iov[used].iov_base, iov[used].iov_len = flight.head + skip, HEAD - skip
                    used += 1
                    skip = HEAD
                iov[used].iov_base, iov[used].iov_len = <void*> (template.frame + skip), template.size - skip
                used += 1
                number += 1
                skip = 0
            wrote = writev(conn.fd, iov, used)
            if wrote < 0:
                if errno == EAGAIN:
                    return self._watch(conn, True)
                if errno == EINTR:
                    continue
                return self._fail("writev: %s", strerror(errno))
            conn.partial += wrote
            while conn.flushed < conn.issued:
                template = &conn.templates[conn.ring[conn.flushed % RING_MAX].template_index]
                if conn.partial < template.size:
                    break
                conn.partial -= template.size
                conn.flushed += 1
        return self._watch(conn, False) if conn.wants_write else 0

    cdef int _watch(self, Conn* conn, bint write) noexcept nogil:
        cdef epoll_event event
        if conn.wants_write == write:
            return 0
        conn.wants_write = write
        event.events = EPOLLIN | (EPOLLOUT if write else 0)
        event.data.u32 = <uint32_t> (conn - self.conns)
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_MOD, conn.fd, &event) < 0:
            return self._fail("epoll_ctl: %s", strerror(errno))
        return 0

    cdef int _receive(self, Conn* conn) noexcept nogil:
        """One recv, then every complete response in the inbox."""
        cdef Py_ssize_t got, at = 0, size
        cdef uint8_t* grown
        got = recv(conn.fd, conn.inbox + conn.inbox_size, conn.inbox_capacity - conn.inbox_size, 0)
        if got == 0:
            return self._fail("the target closed the connection%s", "")
        if got < 0:
            return 0 if errno in (EAGAIN, EINTR) else self._fail("recv: %s", strerror(errno))
        conn.inbox_size += got
        self.last_answer_ns = now_ns()
        while conn.inbox_size - at >= 4:
            size = get32(conn.inbox + at)
            if size < 5 or size > FRAME_MAX:
                return self._fail_number("response of %lld bytes", size)
            if conn.inbox_size - at < 4 + size:
                if conn.inbox_capacity < 4 + size:
                    grown = <uint8_t*> realloc(conn.inbox, 4 + size)
                    if grown is NULL:
                        return self._fail("out of memory%s", "")
                    conn.inbox, conn.inbox_capacity = grown, 4 + size
                break
            if self._answer(conn, conn.inbox + at + 4, size) < 0:
                return -1
            at += 4 + size
        if at:
            conn.inbox_size -= at
            memmove(conn.inbox, conn.inbox + at, conn.inbox_size)
        return 0

    cdef int _answer(self, Conn* conn, const uint8_t* p, Py_ssize_t size) noexcept nogil:
        cdef View view
        cdef Flight* flight = &conn.ring[conn.answered % RING_MAX]
        cdef Template* template = &conn.templates[flight.template_index]
        cdef Verdict verdict
        if conn.answered == conn.flushed:
            return self._fail_number("a response (correlation id %lld) nobody asked for", get32(p))
        if get32(p) != <int32_t> (conn.answered & 0x7FFFFFFF):
            return self._fail_number("correlation id %lld is not the oldest in flight", get32(p))
        view.p, view.end, view.bad = p + 5, p + size, p[4] != 0      # an empty tag buffer ends the response header
        conn.answered += 1
        self.responses += 1
        self.latency.record(self.last_answer_ns - flight.due_ns)
        verdict.wrong, verdict.a, verdict.b = NULL, 0, 0
        verdict.next_offset, verdict.bytes, verdict.records = 0, 0, 0
        if self.fetching:
            check_fetched(&view, &verdict, template.partition, self.next_offset[template.partition], self.check_crc)
        else:
            check_produced(&view, &verdict, template.partition, self.next_offset[template.partition])
            verdict.next_offset += template.records
            verdict.bytes, verdict.records = template.batch_bytes, template.records
        if view.bad:
            return self._fail_number("a response of %lld bytes does not parse", size)
        if verdict.wrong is not NULL:
            if self.errors == 0:
                snprintf(self.problem, sizeof(self.problem), verdict.wrong, verdict.a, verdict.b)
            self.errors += 1                                # the run goes on, and fails at its end
            return 0
        self.bytes += verdict.bytes
        self.records += verdict.records
        if self.fetching and verdict.next_offset >= self.wrap_at[template.partition]:
            verdict.next_offset = 0
        self.next_offset[template.partition] = verdict.next_offset
        return 0

    # ------------------------------------------------------------------------------------------------ what went wrong

    cdef int _fail(self, const char* form, const char* detail) noexcept nogil:
        snprintf(self.problem, sizeof(self.problem), form, detail)
        return -1

    cdef int _fail_number(self, const char* form, int64_t number) noexcept nogil:
        snprintf(self.problem, sizeof(self.problem), form, number)
        return -1


def _own_cpu():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime

"""The load driver: one thread, one epoll, ready-made Produce and Fetch frames, with a check of every response.

It uses little CPU, so that the target dominates the measurement (see bench.wire.transfer for sending). A closed loop
keeps `depth` requests in flight on each connection; an open loop (`Schedule`) measures each latency from the time at
which the request was DUE, computed from its number alone, so that a stall of the target counts for all requests that it
kept waiting, sent or not.

The loop, its samples and its verdicts are one class, because they change the same counters. `loop` runs without the GIL,
so that another thread can take samples: latency is recorded to one of two histograms, and every SAMPLE_NS the loop
hands it over and continues with the other, if the previous sample was taken. It never waits for another thread.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.exc cimport PyErr_CheckSignals
from libc.errno cimport EAGAIN, EINTR, errno
from libc.math cimport ceil
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memmove, strerror
from posix.time cimport timespec

from bench.wire.connections cimport EVENTS, FRAME_MAX, INBOX_STEP, Conn, Flight, Slot, Template
from bench.wire.end_to_end cimport Arrivals, DueTimes
from bench.measuring.histogram cimport Histogram
from bench.wire.replies cimport (
    Fetched, Verdict, View, check_batches, check_fetch_head, check_produced, refuse, take_fetched,
)
from bench.wire.schedule cimport Schedule, due_s, due_until
from bench.wire.system cimport (
    EPOLLOUT, PR_SET_TIMERSLACK, bench_crc32c, epoll_event, epoll_pwait2, get32, load_acquire, now_ns, prctl, store_release, thread_cpu_ns,
)
from bench.wire.transfer cimport Transfer


cdef int64_t TICK_NS = 50000000                      # longest sleep, after which a stop request is noticed
cdef int64_t LOOK_NS = 10000000
cdef int64_t SAMPLE_NS = 250000000
cdef int64_t SPIN_NS = 60000    # the generator polls for this long before a request is due: waking up takes as long
cdef int64_t POLL_NS = 2000     # maximum cost of such a poll: beyond it, the thread was not on a core

cdef enum:
    RELEASED_AT_ONCE = 64       # requests before responses are read again


class LoadError(Exception):
    """A response was wrong, late or missing: the run is invalid."""


def crc32c(data):
    """CRC-32C of a buffer."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return bench_crc32c(<const uint8_t*>view.buf, view.len)
    finally:
        PyBuffer_Release(&view)


def due_time_s(double number, double start, double end, double ramp_s):
    """Return the due time of request `number` of a schedule, in seconds; `start` and `end` in requests per second."""
    cdef Schedule schedule
    schedule.start, schedule.end, schedule.ramp_s = start, end, ramp_s
    return due_s(&schedule, number)


cdef class Driver(Transfer):
    """The load on `Connections`: closed or open loops, one after the other.

    `due_times` receives the due time of each acknowledged batch, `arrivals` each fetched batch. `stop_limit_s`: how long
    a run that is stopped waits for outstanding responses.
    """

    def __init__(
        self, address, connections not None, *, DueTimes due_times=None, Arrivals arrivals=None, double stop_limit_s=0.1,
        **options,
    ):
        super().__init__(address, connections, **options)
        self.due_times, self.arrivals = due_times, arrivals
        self.stop_limit_ns = <int64_t> (stop_limit_s * 1e9)
        self.latency, self.lateness, self.even, self.odd = Histogram(), Histogram(), Histogram(), Histogram()

    # ------------------------------------------------------------------------------------------------ one run

    def run_closed(self, *, int depth, int64_t requests, double seconds, bint check_crc=False):
        """Keep `depth` requests in flight per connection until `requests` were sent or `seconds` passed; then drain.

        Fills the counters: responses, bytes (of batches), records, latency (ns from send), seconds, cpu_seconds (ours).
        Raises LoadError for any response that a correct target would not send.
        """
        self.start_closed(depth=depth, requests=requests, seconds=seconds, check_crc=check_crc)
        self._finish()

    def run_open(self, *, double rate, double seconds):
        """Send request i at start + i / rate, in turn over the connections; latency counts from that time.

        `lateness` holds how much later than due each request was passed to the kernel: the delay of the generator
        itself. Raises LoadError as `run_closed` does.
        """
        self.start_open(start=rate, end=rate, ramp_s=0, seconds=seconds)
        self._finish()

    def _finish(self):
        while not self.loop(0.25):
            if self.alive < self.count:
                break
        self.last_samples()
        if self.errors:
            raise LoadError(f"{self.first_error} ({self.errors} errors in {self.responses} responses)")

    def start_closed(self, *, int depth, int64_t requests, double seconds, bint check_crc=False):
        """Prepare a closed loop, which `loop` runs."""
        if not 0 < depth < self.ring_cap or (self.fetching and depth != 1):
            raise ValueError(f"depth {depth}: 1 to {self.ring_cap - 1}, and 1 for fetching")
        if requests <= 0:
            raise ValueError(f"{requests} requests: nothing to send")
        self.open_loop, self.depth, self.check_crc = False, depth, check_crc
        self._start(requests, seconds)

    def start_open(self, *, double start, double end, double ramp_s, double seconds, int64_t origin_ns=0, double first=0):
        """Prepare an open loop from `start` to `end` requests per second in `ramp_s`, which `loop` runs.

        It begins at `origin_ns` of the monotonic clock, or now without one: if that has passed, requests are overdue,
        and their latency counts from there. Requests are numbered from `first`, a fraction where the piece of a curve
        does not begin with one.
        """
        if start <= 0 or end <= 0 or ramp_s < 0 or seconds <= 0 or first < 0 or self.fetching:
            raise ValueError(
                f"from {start} to {end}/s over {ramp_s} s for {seconds} s: nothing to send, or this driver fetches"
            )
        self.open_loop, self.depth = True, 0
        self.schedule.start, self.schedule.end, self.schedule.ramp_s = start, end, ramp_s
        self.first = first
        self._start(max(1, <int64_t> ceil(due_until(&self.schedule, seconds) - first - 1e-6)), seconds, origin_ns)

    def _start(self, int64_t total, double seconds, int64_t origin_ns=0):
        cdef int i
        cdef int64_t now = now_ns()
        cdef Conn* conn
        self.responses = self.errors = self.bytes = self.records = self.begun = self.outstanding = 0
        self.latency, self.lateness, self.even, self.odd = Histogram(), Histogram(), Histogram(), Histogram()
        self.problem[0] = 0
        self.reported[:] = [0, 0, 0, 0]
        self.stopping = self.stop_ns = self.sample_ready = self.last_answer_ns = self.polled_ns = self.scan_ns = 0
        self.cpu_seconds = self.seconds = 0
        self.total, self.asked, self.start_ns = total, total, origin_ns or now
        self.deadline_ns = self.start_ns + <int64_t> (seconds * 1e9)
        self.look_ns, self.next_sample_ns = now, now + SAMPLE_NS
        for i in range(self.count):
            conn = &self.conns[i]
            conn.counted_from = conn.released = conn.issued
            conn.heard_ns = now

    def loop(self, seconds=None):
        """Run the prepared loop for at most `seconds`, but once at least; returns whether it is over.

        Raises errors of signal handlers.
        """
        cdef int64_t began, polled, until = (1 << 62) if seconds is None else now_ns() + <int64_t> (seconds * 1e9)
        cdef int result
        if self.open_loop and prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0) < 0:     # the default lets each sleep end 50 us late
            raise OSError(errno, "prctl(PR_SET_TIMERSLACK)")
        while True:
            polled = self.polled_ns
            with nogil:
                began = thread_cpu_ns()
                result = self._loop(until)
                began = thread_cpu_ns() - began
            self.cpu_seconds += max(0, began - (self.polled_ns - polled)) / 1e9
            PyErr_CheckSignals()
            if result <= 0 or now_ns() >= until:
                break
        self.ended_ns = now_ns()
        self.seconds = ((self.last_answer_ns or self.ended_ns) - self.start_ns) / 1e9
        return result <= 0

    def stop(self):
        """Make `loop` end soon; requests that are answered by then count. May be called from any thread."""
        store_release(&self.stopping, 1)

    def fail_due(self):
        """Count requests waiting for a lost connection as errors. For an open loop that ends without any connection."""
        cdef int64_t until = min(now_ns(), self.stop_ns or 1 << 62)
        while self.begun < self.asked and self._due_ns(self.begun) <= until:
            self.begun += 1
            self.errors += 1

    def take_sample(self):
        """Return the completed interval, or None; called from another thread.

        (seconds since the start, records, bytes, responses, errors, latency)
        """
        if not load_acquire(&self.sample_ready):
            return None
        if self.is_odd:                                 # the loop records to the odd one: the even one is ours
            latency, self.even = self.even, Histogram()
        else:
            latency, self.odd = self.odd, Histogram()
        sample = self._sample((self.sample_ns - self.start_ns) / 1e9, latency, [self.sampled[i] for i in range(4)])
        store_release(&self.sample_ready, 0)
        return sample

    def last_samples(self):
        """Return the remaining intervals; called after the end of the loop."""
        first = self.take_sample()
        latency, self.even, self.odd = (self.odd if self.is_odd else self.even), Histogram(), Histogram()
        ended_s = (self.ended_ns - self.start_ns) / 1e9
        last = self._sample(ended_s, latency, [self.records, self.bytes, self.responses, self.errors])
        return [sample for sample in (first, last if any(last[1:5]) else None) if sample is not None]

    def _sample(self, double t_s, Histogram latency, list counts):
        cdef int i
        self.latency.merge(latency)
        numbers = [counts[i] - self.reported[i] for i in range(4)]
        for i in range(4):
            self.reported[i] = counts[i]
        return (t_s, *numbers, latency)

    # ------------------------------------------------------------------------------------------------ the loop

    cdef int _loop(self, int64_t until) noexcept nogil:
        """Return 0 when the run is over, -1 when it cannot continue, 1 when a signal or `until` came before."""
        cdef int i, n
        cdef int64_t now, wait = TICK_NS
        cdef epoll_event events[EVENTS]
        cdef timespec timeout
        cdef Conn* conn
        if not self.open_loop:
            for i in range(self.count):
                self._top_up(&self.conns[i])
        while True:
            now = now_ns()
            if now >= self.look_ns:
                self._look(now)
            if self.arrivals is not None:
                self.arrivals.match(64, now)
            if self.open_loop:
                wait = self._release_due()
            elif now >= self.deadline_ns:
                self.total = self.begun
            if self.alive == 0 or (self.begun >= self.total and self.outstanding == 0):
                return 0
            if self.stop_ns and (self.fetching or now >= self.stop_ns + self.stop_limit_ns):
                return 0
            if now >= until:
                return 1
            timeout.tv_sec, timeout.tv_nsec = 0, wait
            n = epoll_pwait2(self.epoll_fd, events, EVENTS, &timeout, NULL)
            if n < 0:
                if errno == EINTR:
                    return 1
                self.errors += 1
                snprintf(self.problem, sizeof(self.problem), "epoll_wait: %s", strerror(errno))
                return -1
            if n == 0 and wait == 0:
                self.polled_ns += min(POLL_NS, now_ns() - now)  # it was only busy-waiting
            for i in range(n):
                conn = &self.conns[events[i].data.u32]
                if conn.dead or (events[i].events & ~<uint32_t> EPOLLOUT and self._receive(conn) < 0):
                    continue
                if self.open_loop:
                    self._flush(conn)
                    self._issue_released(conn, conn.heard_ns)
                else:
                    self._top_up(conn)

    cdef void _look(self, int64_t now) noexcept nogil:
        """Handle the events that need not be checked in each iteration: samples, a stop request, silent connections."""
        cdef int i
        cdef Conn* conn
        self.look_ns = now + LOOK_NS
        if now >= self.next_sample_ns and not load_acquire(&self.sample_ready):
            self.sampled[0], self.sampled[1] = self.records, self.bytes
            self.sampled[2], self.sampled[3] = self.responses, self.errors
            self.sample_ns = now
            self.is_odd = not self.is_odd
            self.next_sample_ns += (now - self.next_sample_ns) // SAMPLE_NS * SAMPLE_NS + SAMPLE_NS
            store_release(&self.sample_ready, 1)
        if self.stop_ns == 0 and load_acquire(&self.stopping):
            self.stop_ns = now
            self.total = self.begun
        if now < self.scan_ns:
            return
        self.scan_ns = now + min(SAMPLE_NS, self.timeout_ns // 4)
        for i in range(self.count):
            conn = &self.conns[i]
            if not conn.dead and conn.answered < conn.issued and now - conn.heard_ns > self.timeout_ns:
                self._lose(conn, "no answer within %.0s%lld s", "", self.timeout_ns // 1000000000)

    cdef int _top_up(self, Conn* conn) noexcept nogil:
        cdef int64_t now = now_ns()
        if conn.dead:
            return 0
        while conn.issued - conn.answered < self.depth and self.begun < self.total and self._has_room(conn):
            conn.released += 1
            self.begun += 1
            self.outstanding += 1
            self._issue(conn, now)
        return self._flush(conn)

    cdef int64_t _release_due(self) noexcept nogil:
        """Send due requests; returns the ns to sleep until the next is due (0: poll)."""
        cdef int64_t due, now = now_ns(), last = self.begun + RELEASED_AT_ONCE
        cdef Conn* conn
        while self.begun < self.total:
            if self.begun == last:
                return 0
            due = self._due_ns(self.begun)
            if due > now:
                return min(TICK_NS, max(0, due - now - SPIN_NS))
            if self.alive == 0:
                return 0                                # it waits for a connection that is reopened: see `revive`
            conn = &self.conns[self.begun % self.count]
            self.begun += 1
            if conn.dead:
                self.errors += 1                        # it was due, but could not be sent
                continue
            conn.released += 1
            self.outstanding += 1
            now = self._issue_released(conn, 0)
        return TICK_NS

    cdef int64_t _issue_released(self, Conn* conn, int64_t held_until) noexcept nogil:
        """Issue due requests that have room; a delay caused by the target is not lateness of the generator."""
        cdef int64_t due, now = now_ns()
        while not conn.dead and conn.issued < conn.released and self._has_room(conn):
            due = self._due_ns((conn.issued - conn.counted_from) * self.count + (conn - self.conns))
            self._issue(conn, due)
            self._flush(conn)
            now = now_ns()
            self.lateness.record(now - max(due, held_until))
        return now

    cdef int64_t _due_ns(self, int64_t number) noexcept nogil:
        return self.start_ns + <int64_t> (due_s(&self.schedule, number + self.first) * 1e9)

    # ------------------------------------------------------------------------------------------------ receiving

    cdef void _flushed(self, Conn* conn) noexcept nogil:
        """Handle the complete sending of the oldest unsent request; without responses, the request is then complete."""
        cdef Flight* flight = &conn.ring[conn.flushed % conn.ring_size]
        cdef Template* template = &conn.templates[flight.template_index]
        conn.flushed += 1
        if not self.unanswered:
            return
        conn.answered += 1
        conn.heard_ns = now_ns()
        if conn.answered <= conn.counted_from:
            return
        self.outstanding -= 1
        self.responses += 1
        self.bytes += template.batch_bytes
        self.records += template.records
        self.last_answer_ns = conn.heard_ns
        self._record(conn.heard_ns - flight.due_ns)

    cdef int _receive(self, Conn* conn) noexcept nogil:
        conn.is_pending = True
        while conn.is_pending:
            conn.is_pending = False
            if self._receive_once(conn) < 0:
                return -1
        return 0

    cdef int _receive_once(self, Conn* conn) noexcept nogil:
        """Receive once, then handle every complete response in the inbox."""
        cdef Py_ssize_t got, at = 0, size, room = conn.inbox_capacity - conn.inbox_size
        got = self._take(conn, conn.inbox + conn.inbox_size, room)
        if got == 0:
            return self._lose(conn, "the target closed the connection%s%.0lld", "", 0)
        if got < 0:
            return 0 if -got in (EAGAIN, EINTR) else self._lose(conn, "recv: %s%.0lld", strerror(<int> -got), 0)
        conn.inbox_size += got
        conn.heard_ns = now_ns()
        while conn.inbox_size - at >= 4:
            size = get32(conn.inbox + at)
            if size < 5 or size > FRAME_MAX:
                return self._lose(conn, "%sresponse of %lld bytes", "", size)
            if conn.inbox_size - at < 4 + size:
                if not self._grow_inbox(conn, 4 + size):
                    return self._lose(conn, "no memory for %sa response of %lld bytes", "", size)
                break
            if self._answer(conn, conn.inbox + at + 4, size) < 0:
                return -1
            at += 4 + size
        if at:
            conn.inbox_size -= at
            memmove(conn.inbox, conn.inbox + at, conn.inbox_size)
        if got == room and conn.inbox_capacity < INBOX_STEP:
            self._grow_inbox(conn, 2 * conn.inbox_capacity)     # there may be more; if this fails, it is read next time
        return 0

    cdef int _answer(self, Conn* conn, const uint8_t* p, Py_ssize_t size) noexcept nogil:
        cdef View view
        cdef Flight* flight = &conn.ring[conn.answered % conn.ring_size]
        cdef Template* template = &conn.templates[flight.template_index]
        cdef Verdict verdict
        if conn.answered == conn.flushed:
            return self._lose(conn, "%sa response (correlation id %lld) without a request", "", get32(p))
        if get32(p) != <int32_t> (conn.answered & 0x7FFFFFFF):
            return self._lose(conn, "%scorrelation id %lld is not the oldest in flight", "", get32(p))
        if conn.answered < conn.counted_from:
            conn.answered += 1                          # requested by a run that was stopped
            return 0
        view.p, view.end, view.bad = p + 5, p + size, p[4] != 0      # an empty tag buffer ends the response header
        verdict.wrong, verdict.a, verdict.b = NULL, 0, 0
        verdict.next_offset, verdict.bytes, verdict.records = 0, 0, 0
        if self.fetching:
            self._fetched(conn, template, &view, &verdict)
        else:
            self._produced(conn, template, flight.due_ns, &view, &verdict)
        if view.bad:
            return self._lose(conn, "%sa response of %lld bytes does not parse", "", size)
        if verdict.wrong is not NULL and self.giving_up:
            if self.problem[0] == 0:
                snprintf(self.problem, sizeof(self.problem), verdict.wrong, verdict.a, verdict.b)
            return self._lose(conn, "", "", 0)          # with this request: it has no answer that counts
        conn.answered += 1
        self.outstanding -= 1
        self.responses += 1
        self.last_answer_ns = conn.heard_ns
        self._record(conn.heard_ns - flight.due_ns)
        self.bytes += verdict.bytes
        self.records += verdict.records
        if verdict.wrong is not NULL:
            if self.problem[0] == 0:
                snprintf(self.problem, sizeof(self.problem), verdict.wrong, verdict.a, verdict.b)
            self.errors += 1
        return 0

    cdef void _produced(self, Conn* conn, Template* template, int64_t due_ns, View* view, Verdict* v) noexcept nogil:
        cdef Slot* slot = &conn.slots[template.slots[0]]
        check_produced(view, v, slot.partition, slot.next_offset)
        if view.bad or v.wrong is not NULL:
            return
        if self.due_times is not None:
            self.due_times.publish(slot.partition, v.next_offset, due_ns)
        slot.next_offset = v.next_offset + template.records
        slot.acknowledged += template.records
        v.bytes, v.records = template.batch_bytes, template.records

    cdef void _fetched(self, Conn* conn, Template* template, View* view, Verdict* verdict) noexcept nogil:
        cdef Fetched fetched
        cdef Slot* slot
        cdef int64_t i, k, n = check_fetch_head(view, verdict)
        if verdict.wrong is NULL and n != template.slot_count:
            view.bad = True
        for i in range(n):
            if view.bad:
                return
            fetched = take_fetched(view, verdict)
            if fetched.batches is NULL:
                continue                                # the next Fetch requests the same
            slot = NULL
            for k in range(n):                          # nearly always in the order of the request
                slot = &conn.slots[template.slots[(i + k) % n]]
                if slot.partition == fetched.partition:
                    break
                slot = NULL
            if slot is NULL:
                view.bad = True
                return
            check_batches(&fetched, verdict, slot.next_offset, self.committed, self.check_crc, self.arrivals,
                          conn.heard_ns)
            if verdict.wrong is not NULL:
                return
            if slot.wrap_at and verdict.next_offset == slot.next_offset:
                refuse(verdict, b"nothing was fetched at offset %lld of partition %lld", slot.next_offset, slot.partition)
                return
            slot.next_offset = verdict.next_offset
            if slot.wrap_at and slot.next_offset >= slot.wrap_at:
                slot.next_offset = slot.wrap_from

    cdef void _record(self, int64_t latency_ns) noexcept nogil:
        if self.is_odd:
            self.odd.record(latency_ns)
        else:
            self.even.record(latency_ns)

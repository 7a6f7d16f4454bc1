"""The receiving half of a client connection: reads bytes, and cuts them into requests.

The loop only reports readiness (add_reader, add_writer); the transport is read here, and written in `outbox`. Bounds
are in the .pxd.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN
from libc.string cimport memcpy, memmove

from broker_cy.core.clock cimport coarse_ms, now_ns
from broker_cy.metrics.requests cimport HANDLER, QUEUE, count_time
from broker_cy.quotas.account cimport Account
from broker_cy.connections.gate cimport api_name

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef enum:
    PRODUCE_KEY = 0

cdef double PERCENT_OF_NS = 100.0 / 1000000000


cdef class Receiver(AnswerQueue):
    """The bytes and whole requests of a connection; `Connection` handles the requests."""

    cdef int process(self, const uint8_t* p, Py_ssize_t n) except -1:
        """Handle one request without its size field."""
        return 0

    def on_readable(self):
        if self.closed:
            return
        try:
            if self.account is None:
                self.read()
            else:
                self.counted(False)
        except Exception as error:
            self.broken(error)

    cdef int counted(self, bint from_buffer) except -1:
        """Read, or continue with the bytes in the buffer; the time that it takes is charged to the client."""
        cdef Account account = self.account
        cdef int64_t began_ns = now_ns(&self.clock.source)
        if from_buffer:
            self.go_on()
        else:
            self.read()
        if account.time is not None:
            account.time.add((now_ns(&self.clock.source) - began_ns) * PERCENT_OF_NS, coarse_ms(&self.clock.source))
        return 0

    cdef int read(self) except -1:
        cdef Py_ssize_t budget = READ_TURN_BYTES
        cdef Py_ssize_t want
        cdef ssize_t n
        cdef int64_t sent
        if self.must_wait():
            # A handler is not done, or answers are held back by a slow reader: leave the rest in the kernel's buffer,
            # which stops the peer.
            self.server.loop.remove_reader(self.transport.fd)
            self.reading = False
            return 0
        while budget > 0:
            want = self.make_room()
            sent = self.bytes_out
            n = self.transport.recv(self.buffer.data + self.in_end, want)
            if n > 0:
                self.in_end += n
                budget -= n
                self.bytes_in += n
                self.parse()
                if self.closed:
                    return 0
                if self.must_wait():
                    break
                if n < want or budget <= 0:
                    if not self.gives_answer(sent) and self.transport.is_reset():
                        return self.peer_gone()
                    break
            elif n == -EAGAIN:
                break
            elif self.resume_scheduled:
                # Whole requests are left in the buffer; the end is still there when they are handled.
                break
            else:
                return self.peer_gone()
        self.last_active_ms = coarse_ms(&self.clock.source)
        self.settle()
        return 0

    cdef bint gives_answer(self, int64_t sent) noexcept:
        """Whether an answer to what was just read has left, or leaves in this turn: then the send finds out whether the peer
        has reset the connection. Otherwise that must be asked: uvloop reports a reset once, together with the bytes before.
        """
        return self.bytes_out != sent or (self.pending > 0 and self.staged_at == self.server.flushes)

    cdef int peer_gone(self) except -1:
        """The peer sends nothing more. A request that was cut off is logged; a client that leaves between requests is
        not.
        """
        cdef Py_ssize_t got = self.in_end - self.in_start
        cdef const uint8_t* p = self.buffer.data + self.in_start
        if got == 0:
            return self.close()
        return self.fail(
            api_name(be16(p + 4)) if got >= 6 else "",
            f"the connection ended after {got} bytes of a request of {4 + be32(p) if got >= 4 else 'unknown size'}",
        )

    cdef Py_ssize_t make_room(self) except -1:
        """Have a buffer with room after `in_end`; return how much to read now."""
        cdef Py_ssize_t unparsed, frame_bytes = 0, target, room
        cdef RecvBuffer fresh
        if self.buffer is None:
            if self.carry is None:
                unparsed = 0
                self.buffer = self.server.pool.acquire(BUFFER_BYTES)
            else:
                unparsed = PyBytes_GET_SIZE(self.carry)
                self.buffer = self.server.pool.acquire(BUFFER_BYTES)
                memcpy(self.buffer.data, PyBytes_AS_STRING(self.carry), unparsed)
                self.carry = None
            self.in_start = 0
            self.in_end = unparsed
        unparsed = self.in_end - self.in_start
        if unparsed == 0 and Py_REFCNT(self.buffer) == 1:
            self.in_start = self.in_end = 0
        if unparsed >= 4:
            frame_bytes = 4 + <Py_ssize_t>be32(self.buffer.data + self.in_start)
        room = self.buffer.capacity - self.in_end
        target = BUFFER_BYTES
        if frame_bytes + READ_AHEAD_BYTES > BUFFER_BYTES:
            # Never more than twice what arrived, or than what this connection has sent before: a length is only a
            # claim.
            target = min(frame_bytes + READ_AHEAD_BYTES, max(2 * unparsed, self.proven_bytes + READ_AHEAD_BYTES))
            target = max(target, BUFFER_BYTES)
        if room == 0 or (target > self.buffer.capacity - self.in_start and target > self.buffer.capacity) or (
                room < 16384 and unparsed < 16384):
            if Py_REFCNT(self.buffer) == 1 and target <= self.buffer.capacity and self.in_start > 0:
                memmove(self.buffer.data, self.buffer.data + self.in_start, unparsed)
            elif room == 0 or target > self.buffer.capacity or self.in_start > 0:
                fresh = self.server.pool.acquire(max(target, unparsed + 16384))
                memcpy(fresh.data, self.buffer.data + self.in_start, unparsed)
                self.buffer = fresh
            self.in_start = 0
            self.in_end = unparsed
            room = self.buffer.capacity - self.in_end
        if frame_bytes > BUFFER_BYTES - READ_AHEAD_BYTES:
            return min(room, frame_bytes - unparsed + READ_AHEAD_BYTES)
        return room

    cdef int settle(self) except -1:
        """Return the buffer if all of it is parsed; keep a short rest in an object of its size."""
        cdef Py_ssize_t unparsed
        if self.buffer is None:
            return self.hold_for_login(0) if self.login_bytes else 0
        unparsed = self.in_end - self.in_start
        self.wake_when_worth_it(unparsed)
        if unparsed == 0:
            self.buffer = None
        elif unparsed < self.carry_bytes:
            self.carry = PyBytes_FromStringAndSize(<char*>self.buffer.data + self.in_start, unparsed)
            self.buffer = None
        if self.logging_in or self.login_bytes:
            self.hold_for_login(unparsed if self.buffer is None else self.buffer.capacity)
        return 0

    cdef int hold_for_login(self, Py_ssize_t held) except -1:
        """Note the memory that this connection holds between two reads, and enforce LOGIN_BYTES_MAX."""
        cdef ServerCore server = self.server
        cdef Receiver oldest
        if not self.logging_in or held <= LOGIN_BYTES_FREE:
            held = 0
        if held == self.login_bytes:
            return 0
        if self.login_bytes == 0:
            server.login_holders[self] = None
        elif held == 0:
            server.login_holders.pop(self, None)
        server.login_bytes += held - self.login_bytes
        self.login_bytes = held
        while server.login_bytes > LOGIN_BYTES_MAX:
            oldest = next(iter(server.login_holders))
            oldest.fail("", f"all connections together hold more than {LOGIN_BYTES_MAX} bytes of requests before their logins; "
                            f"this one has {oldest.login_bytes}")
        return 0

    cdef int wake_when_worth_it(self, Py_ssize_t unparsed) except -1:
        """Have input reported only when the rest of a large request has arrived, or enough of it to be worth a
        wake-up.
        """
        cdef Py_ssize_t missing = 0
        cdef int wanted = 1
        if unparsed >= 4:
            missing = 4 + <Py_ssize_t>be32(self.buffer.data + self.in_start) - unparsed
        if missing >= WAKE_BYTES_MIN:
            wanted = <int>min(missing, WAKE_BYTES_MAX)
        if wanted != self.wake_bytes:
            self.transport.wake_at(wanted)
            self.wake_bytes = wanted
        return 0

    cdef bint must_wait(self) noexcept:
        return self.running or self.held or len(self.queue) > 0 or self.pending >= PENDING_MAX

    cdef bint waits_for_sync(self) except *:
        """Whether records that this connection produced are not on disk yet (flush.messages). Kafka handles its requests one
        by one: its next request other than Produce finds the records on disk.
        """
        if self.staged_at == self.server.flushes:
            self.server.flush()
        if self.closed:
            return True
        self.awaits_sync = self.unsettled > 0
        if self.awaits_sync:
            self.held |= HELD_FOR_SYNC
        return self.awaits_sync

    cdef int parse(self) except -1:
        """Handle every whole request in the buffer, as long as this connection may."""
        cdef Py_ssize_t size
        cdef const uint8_t* p
        cdef RequestMetrics metrics = self.server.metrics
        cdef int64_t now = 0
        self.parsing = True
        self.received_ns = 0
        try:
            # Sending ready answers, or writing staged batches, may close this connection, which releases its buffer.
            while not self.closed and self.in_end - self.in_start >= 4 and not self.must_wait():
                p = self.buffer.data + self.in_start
                size = be32(p)
                if size < 0 or size > self.frame_bytes_max:
                    setting = "sasl.server.max.receive.size" if self.logging_in else "socket.request.max.bytes"
                    return self.fail("", f"a request of {size} bytes; 0 to {self.frame_bytes_max} are allowed ({setting})")
                if self.in_end - self.in_start - 4 < size:
                    break
                if self.awaits_sync and size >= 2 and be16(p + 4) != PRODUCE_KEY and self.waits_for_sync():
                    break
                self.in_start += 4 + size
                if size + 4 > self.proven_bytes:
                    self.proven_bytes = size + 4
                if metrics.on:
                    if now == 0:
                        now = self.received_ns = now_ns(&self.clock.source)
                    self.key = -1
                    self.process(p + 4, size)
                    now = self.count_handled(metrics, size, now)
                else:
                    self.process(p + 4, size)
                if self.closed:
                    return 0
                if self.ready_bytes > SCRATCH_BYTES:
                    self.drain()
                if self.server.staged_bytes > STAGED_BYTES_MAX:
                    self.server.flush()
        finally:
            self.parsing = False
        if self.head is not None and self.head.ready and not self.closed:
            self.drain()
        return 0

    cdef int64_t count_handled(self, RequestMetrics metrics, Py_ssize_t size, int64_t started) except -1:
        """A request that reached its handler at `started` is handled, or waits for something. Returns the time."""
        cdef int64_t now = now_ns(&self.clock.source)
        cdef Reply reply = self.tail
        if self.key < 0:
            return now                  # it was none that is served
        metrics.apis[self.key].requests += 1
        metrics.apis[self.key].request_bytes += size + 4
        count_time(metrics, self.key, QUEUE, started - self.received_ns)
        count_time(metrics, self.key, HANDLER, now - started)
        if reply is not None and reply.mark_ns == 0:
            reply.mark_ns = now
        return now

    # ---- after output was held back ----

    cdef int release_input(self) except -1:
        self.buffer = None
        self.carry = None
        return 0

    cdef int output_free(self) except -1:
        if self.parsing or self.resume_scheduled or self.must_wait():
            return 0
        if self.has_whole_request() or not (self.reading or self.closing):
            self.resume_scheduled = True
            self.server.loop.call_soon(self.resume)
        return 0

    cdef bint has_whole_request(self) noexcept:
        cdef const uint8_t* p
        cdef Py_ssize_t n
        if self.buffer is not None:
            p = self.buffer.data + self.in_start
            n = self.in_end - self.in_start
        elif self.carry is not None:
            p = <const uint8_t*>PyBytes_AS_STRING(self.carry)
            n = PyBytes_GET_SIZE(self.carry)
        else:
            return False
        return n >= 4 and n - 4 >= be32(p)

    cdef int go_on(self) except -1:
        self.make_room()
        self.parse()
        return 0 if self.closed else self.settle()

    def resume(self):
        """Go on with requests that were left while a handler ran or answers were held back."""
        self.resume_scheduled = False
        if self.closed or self.must_wait():
            return
        try:
            if not self.reading and not self.closing:
                self.server.loop.add_reader(self.transport.fd, self.on_readable)
                self.reading = True
                self.transport.resumed()
            if self.buffer is not None or self.carry is not None:
                if self.account is None:
                    self.go_on()
                else:
                    self.counted(True)
            if self.closing:
                self.after_output()
        except Exception as error:
            self.broken(error)

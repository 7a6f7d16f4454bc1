"""The receiving half of a client connection: it owns its transport, reads requests and hands them to their handlers.

The loop only reports readiness (add_reader, add_writer); the transport is read here, and written in `outbox`. Bounds
are in the .pxd. The file is one extension class, which cannot be spread over several files.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN
from libc.string cimport memcmp, memcpy, memmove

from broker_cy.core.clock cimport coarse_ms, now_ns
from broker_cy.core.cursor cimport Cursor
from broker_cy.core.writer cimport Writer
from broker_cy.metrics.requests cimport HANDLER, QUEUE, RequestMetrics, count_time
from broker_cy.quotas.account cimport Account
from broker_cy.connections.charging cimport charge_answer, timed
from broker_cy.connections.gate cimport ADMITTED, WITHOUT_BODY, Gate, admits_at_once, api_name
from broker_cy.connections.response_errors cimport count_errors
from broker_cy.network.transport cimport Transport
from broker_cy.wire.codec cimport decode_at
from broker_cy.wire.produce cimport skip_tags

import asyncio
from types import CoroutineType

from broker_cy.core.errors import WireError
from broker_cy.core.text import java_text
from broker_cy.security.acls import ANONYMOUS
from broker_cy.broker.context import RequestContext
from broker_cy.wire import codec, frame

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef extern from "arpa/inet.h" nogil:
    unsigned int ntohl(unsigned int)
    unsigned short ntohs(unsigned short)

cdef enum:
    PRODUCE_KEY = 0
    SASL_HANDSHAKE_KEY = 17
    API_VERSIONS_KEY = 18
    SASL_AUTHENTICATE_KEY = 36

cdef double PERCENT_OF_NS = 100.0 / 1000000000


cdef bytes response_frame(RequestMetrics metrics, int16_t key, int16_t version, int32_t correlation_id, object response):
    """Length, response header and body of one answer, whose errors are counted."""
    cdef Writer writer = Writer()
    if metrics.on:
        count_errors(metrics, key, response)
    writer.i32(0)
    writer.i32(correlation_id)
    if frame.response_header_version(key, version) >= 1:
        writer.i8(0)
    codec.encode_into(writer, response, version)
    writer.patch_i32(0, <int32_t>(writer.pos - 4))
    return PyBytes_FromStringAndSize(<char*>writer.buf, writer.pos)


cdef bytes charged_frame(AnswerQueue connection, int16_t key, int16_t version, int32_t correlation_id, object response):
    """The same, with the wait of quotas, which is for this client alone: others may get the same object."""
    cdef RequestMetrics metrics = connection.server.metrics
    if connection.server.quotas is None:
        return response_frame(metrics, key, version, correlation_id, response)
    own = getattr(response, "throttle_time_ms", None)
    charge_answer(connection, key, response)
    cdef bytes payload = response_frame(metrics, key, version, correlation_id, response)
    if own is not None:
        response.throttle_time_ms = own
    return payload


cdef inline int32_t be32(const uint8_t* p) noexcept nogil:
    cdef unsigned int v
    memcpy(&v, p, 4)
    return <int32_t>ntohl(v)


cdef inline int16_t be16(const uint8_t* p) noexcept nogil:
    cdef unsigned short v
    memcpy(&v, p, 2)
    return <int16_t>ntohs(v)


cdef class Connection(AnswerQueue):
    def __init__(self, ServerCore server, Transport transport not None, str listener, str client_host, int client_port, str local,
                 logins=None):
        """`logins` makes the login of a connection (login.Logins); None on listeners without SASL."""
        self.server = server
        self.transport = transport
        self.listener = listener
        self.principal = ANONYMOUS
        self.client_host = client_host
        self.client_port = client_port
        self.connection_id = f"{local}-{client_host}:{client_port}-{server.connections_opened}"
        server.connections_opened += 1
        self.queue = []
        self.loop = server.loop
        self.clock = server.clock
        self.client_id = b""
        self.opened_ms = self.last_active_ms = coarse_ms(&self.clock.source)
        self.staged_at = -1
        self.wake_bytes = 1
        self.gate = server.gate
        self.frame_bytes_max = server.request_bytes_max
        self.carry_bytes = CARRY_BYTES
        if logins is not None:
            self.begin_login(logins.receive_bytes_max)
            self.login = logins.begin(self)
        server.connections[self] = None
        server.loop.add_reader(transport.fd, self.on_readable)
        self.reading = True

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
        if self.must_wait():
            # A handler is not done, or answers are held back by a slow reader: leave the rest in the kernel's buffer,
            # which stops the peer.
            self.server.loop.remove_reader(self.transport.fd)
            self.reading = False
            return 0
        while budget > 0:
            want = self.make_room()
            n = self.transport.recv(self.buffer.data + self.in_end, want)
            if n > 0:
                self.in_end += n
                budget -= n
                self.bytes_in += n
                self.parse()
                if self.closed:
                    return 0
                if n < want or self.must_wait():
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
        cdef Connection oldest
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

    cdef int process(self, const uint8_t* p, Py_ssize_t n) except -1:
        """One request: header, then the handler of its API."""
        cdef int16_t key, version, client_id_length
        cdef int32_t correlation_id
        cdef Cursor cursor
        cdef object client_id = None
        cdef Py_ssize_t at
        cdef int verdict
        cdef Gate gate = self.gate
        if n < 8:
            if self.logging_in:
                return self.to_login(p, n)
            return self.fail("", f"a request of {n} bytes is shorter than its header")
        key = be16(p)
        version = be16(p + 2)
        correlation_id = be32(p + 4)
        if not admits_at_once(gate, key, version):
            if self.login is not None:
                if self.logging_in or self.is_for_login(key):
                    return self.to_login(p, n)
                if self.closed:
                    return 0
                gate = self.server.gate
            verdict = gate.judge(key, version, self.principal, self.listener)
            if verdict == WITHOUT_BODY:
                self.key = key
                return self.call_handler(key, -1, correlation_id, None, NULL, 0)
            if verdict != ADMITTED:
                return self.fail(api_name(key), gate.refusal)
        if n < 10:
            return self.fail(api_name(key), "the request ends within its header")
        client_id_length = be16(p + 8)
        at = 10
        # Any negative length is null, as Kafka reads it.
        if client_id_length >= 0:
            if at + client_id_length > n:
                return self.fail(api_name(key), f"client_id of {client_id_length} bytes passes the request's end")
            at += client_id_length
        self.server.requests += 1
        self.requests += 1
        self.key = key
        if client_id_length >= 0 and (client_id_length != PyBytes_GET_SIZE(self.client_id)
                                      or memcmp(p + 10, PyBytes_AS_STRING(self.client_id), client_id_length) != 0):
            self.client_id = PyBytes_FromStringAndSize(<char*>p + 10, client_id_length)
        if key != PRODUCE_KEY and self.staged_at == self.server.flushes:
            # Kafka handles the requests of a connection one by one: this one finds the records of earlier ones.
            self.server.flush()
            if self.closed:
                return 0
        try:
            if version >= self.server.flexible_from[key]:
                if at < n and p[at] == 0:
                    at += 1
                else:
                    cursor = Cursor.over(p + at, n - at, self.buffer)
                    skip_tags(cursor)
                    at = n - cursor.remaining()
            if self.server.hot[key] != NULL:
                return self.server.hot[key](self, correlation_id, version, p + at, n - at, self.buffer)
            if client_id_length >= 0:
                client_id = java_text(PyBytes_FromStringAndSize(<char*>p + 10, client_id_length))
        except WireError as error:
            return self.fail(f"{api_name(key)} v{version}", str(error))
        return self.call_handler(key, version, correlation_id, client_id, p + at, n - at)

    cdef int call_handler(self, int16_t key, int16_t version, int32_t correlation_id, object client_id,
                          const uint8_t* body, Py_ssize_t n) except -1:
        """Run a handler written in Python, directly or as a task."""
        cdef object entry = self.server.registrations[key]
        cdef object request = None
        cdef Cursor cursor
        cdef Reply reply = Reply.__new__(Reply)
        reply.correlation_id = correlation_id
        if body != NULL:
            cursor = Cursor.over(body, n, self.buffer)
            cursor.lenient_text = True
            if key == API_VERSIONS_KEY:
                cursor.elements_max = cursor.elements_left = ANYBODYS_ELEMENTS_MAX
            try:
                request = decode_at(self.server.request_classes[key], version, cursor)
            except WireError as error:
                return self.fail(f"{api_name(key)} v{version}", str(error))
        context = RequestContext(self.server.broker, key, version, client_id, self.client_host, self.listener,
                                 self.connection_id, self.principal, self.by_token)
        self.add_reply(reply)
        response = entry.function(context, request)
        if entry.is_async or type(response) is CoroutineType:
            if self.server.quotas is not None:
                response = timed(response, self)
            task = self.server.loop.create_task(_serve(response, _Completion(reply, key, version)))
            reply.task = task
            self.running = True
            self.server.tasks.add(task)
            return 0
        reply.payload = charged_frame(self, key, max(version, 0), correlation_id, response)
        return self.mark_ready(reply)

    # ---- the login: calls by `login` ----

    cdef bint is_for_login(self, int16_t key) except *:
        """Whether a request of a client that is logged in begins another login. An expired session ends with any other."""
        if key == SASL_HANDSHAKE_KEY and self.login.begins_again():
            return True
        if self.login.has_expired:
            self.login.expired()
            self.close()
        return False

    cdef int to_login(self, const uint8_t* p, Py_ssize_t n) except -1:
        self.server.requests += 1
        self.requests += 1
        self.login.take(PyBytes_FromStringAndSize(<char*>p, n))
        return 0

    def begin_login(self, Py_ssize_t frame_bytes_max):
        """Each frame is for the login from now on, and not larger than this."""
        self.logging_in = True
        self.frame_bytes_max = frame_bytes_max
        self.gate = self.server.login_gate
        self.carry_bytes = LOGIN_CARRY_BYTES

    def answer_login(self, int key, bytes payload not None):
        """Send the frame as the answer to the request that is being handled. -1: it was a token without a header."""
        cdef Reply reply = Reply.__new__(Reply)
        if self.closed:
            return
        self.key = key if key >= 0 else SASL_AUTHENTICATE_KEY
        self.add_reply(reply)
        reply.payload = payload
        self.mark_ready(reply)

    def identify(self, str principal not None):
        """Set the principal of a client without a login: its certificate names it."""
        self.principal = principal

    def admit(self, str principal not None, bint by_token=False):
        """The client is logged in, perhaps by a delegation token: its requests are handled."""
        self.principal = principal
        self.by_token = by_token
        self.logging_in = False
        self.frame_bytes_max = self.server.request_bytes_max
        self.carry_bytes = CARRY_BYTES
        self.gate = self.server.session_gate
        self.gate.rule = self.server.gate.rule

    def expire(self):
        """The session has ended: each request is shown to the login."""
        if not self.logging_in:
            self.gate = self.server.login_gate

    def pause_login(self):
        """Handle nothing more until `resume_login`, or `end_refused`."""
        self.running = True

    def resume_login(self):
        if self.closed:
            return
        self.running = False
        self.output_free()

    def end_refused(self, int key, bytes payload not None):
        """Send the frame, if it is not empty, behind the due answers, and close the connection."""
        if self.closed:
            return
        try:
            self.closing = True
            # Drop the bytes after the refused request.
            self.in_start = self.in_end = 0
            self.release_input()
            if payload:
                self.answer_login(key, payload)
            else:
                self.after_output()
        except Exception as error:
            self.broken(error)

    cpdef int close(self) except -1:
        if self.login is not None:
            self.login.closed()
            self.login = None
        if self.login_bytes:
            self.hold_for_login(0)
        return AnswerQueue.close(self)

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


@cython.final
cdef class _Completion:
    """Turns the result of a handler's task into the answer."""
    cdef Reply reply
    cdef int16_t key
    cdef int16_t version

    def __cinit__(self, Reply reply, int16_t key, int16_t version):
        self.reply = reply
        self.key = key
        self.version = version

    cdef int over(self) except -1:
        """The task is done: the connection continues."""
        cdef AnswerQueue connection = self.reply.connection
        connection.server.tasks.discard(self.reply.task)
        connection.running = False
        self.reply.task = None
        return 0

    cdef int answer(self, object response, object error) except -1:
        cdef AnswerQueue connection = self.reply.connection
        self.over()
        if connection.closed:
            return 0
        if error is not None:
            connection.broken(error)
            return 0
        try:
            self.reply.payload = charged_frame(connection, self.key, self.version, self.reply.correlation_id, response)
            connection.mark_ready(self.reply)
            # Where an answer before it is still due, sending did not get there.
            connection.output_free()
        except Exception as failure:
            connection.broken(failure)
        return 0


async def _serve(handling, _Completion completion):
    """Await a handler and answer without another turn of the loop."""
    response = error = None
    try:
        response = await handling
    except asyncio.CancelledError:
        completion.over()
        raise
    except Exception as failure:
        error = failure
    completion.answer(response, error)

"""The answers of a connection, in the order of its requests, and the state that all connections of a broker share.

An answer is ready immediately, after the write that ends a turn of the loop, or when its handler is done; it is sent
after all earlier answers. Bytes that the socket does not take are queued, and the connection reads no more requests
until the queue is empty.

Both are in one file because each holds the other: the state's C table of handlers takes an AnswerQueue, which holds the
state.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memset

from broker_cy.core.clock cimport coarse_ms, now_ns, wall_ms as wall_clock_ms
from broker_cy.metrics.requests cimport SEND, TOTAL, count_time

from broker_cy.storage.jobs import InlineJobs
from broker_cy.wire import frame

cdef enum:
    SASL_HANDSHAKE_KEY = 17

DEFAULT_REQUEST_BYTES_MAX = 104857600
FETCH_BYTES_MAX = 57671680          # fetch.max.bytes


cdef int16_t flexible_from(api_key) except -1:
    """First version of the API whose request header carries tagged fields (RequestHeader v2, KIP-482)."""
    low, high = frame.api_versions(api_key)
    for version in range(low, high + 1):
        if frame.request_header_version(api_key, version) >= 2:
            return version
    return high + 1


@cython.freelist(256)
cdef class Reply:
    cdef int enter(self, int phase, int64_t now) except -1:
        """From `now` on it waits for something else."""
        if self.mark_ns:
            count_time(self.connection.server.metrics, self.key, self.wait_phase, now - self.mark_ns)
            self.mark_ns = now
        self.wait_phase = phase
        return 0

    cdef int emit(self, Writer out) except -1:
        """Append this answer to `out`, or pass its pieces to the connection in order."""
        cdef object piece
        if type(self.payload) is bytes:
            out.raw(<const uint8_t*>PyBytes_AS_STRING(self.payload), PyBytes_GET_SIZE(self.payload))
            return 0
        for piece in self.payload:
            if type(piece) is bytes:
                out.raw(<const uint8_t*>PyBytes_AS_STRING(piece), PyBytes_GET_SIZE(piece))
            else:
                self.connection.push_bytes(out, True)
                self.connection.push_slice(<LogSlice>piece)
        return 0

    cdef bint written(self) except *:
        """The write that this answer waited for is done. Whether it waits on, registered with a partition, or never leaves."""
        return False

    cdef int hurry(self) except -1:
        """The broker stops: answer now with what is available, if possible."""
        return 0

    cdef int cancel(self) except -1:
        """The connection is closed. A task runs to its end: its changes do not belong to the connection."""
        return 0


cdef class ServerCore(FlushGroup):
    """The state that all connections of a broker share: dispatch table, buffers, the answers that wait for the write."""

    def __init__(self, loop, clock, log_events, broker, table, registry, request_bytes_max=DEFAULT_REQUEST_BYTES_MAX, on_closed=None):
        super().__init__(loop, clock)
        self.log_events = log_events
        self.broker = broker
        self.topics_by_name = table.by_name
        self.topics_by_id = table.by_id
        self.fetch_bytes_max = FETCH_BYTES_MAX
        self.metrics = RequestMetrics()
        self.pool = BufferPool()
        self.connections = {}
        self.scratch = Writer()
        self.request_bytes_max = request_bytes_max
        self.on_closed = on_closed
        self.unflushed = []
        self.settled_replies = []
        self.freed = []
        self.tasks = set()
        # These run immediately; the server replaces them by jobs with a thread.
        self.check_jobs = InlineJobs()
        self.gate = Gate(registry)
        self.login_gate = self.gate.without(None)
        self.session_gate = self.gate.without((SASL_HANDSHAKE_KEY,))
        self.login_holders = {}
        self.registrations = [None] * API_KEYS
        # By API key: the class of its requests, made with the first one.
        self.request_classes = [None] * API_KEYS
        memset(self.hot, 0, sizeof(self.hot))
        memset(self.plain, 0, sizeof(self.plain))
        memset(self.metered, 0, sizeof(self.metered))
        cdef int key
        for key in range(API_KEYS):
            self.flexible_from[key] = 32767
        for key, entry in registry.items():
            self.registrations[key] = entry
            self.flexible_from[key] = flexible_from(entry.api_key)

    cdef int set_hot(self, int16_t key, HotHandler function) except -1:
        self.plain[key] = function
        self.hot[key] = self.metered[key] if self.quotas is not None and self.metered[key] != NULL else function
        return 0

    def meter(self, quotas, int64_t generation):
        """Count the use of clients from now on, for these quotas; None: no quotas. Called for each change of them."""
        cdef int key
        self.quotas = quotas
        self.quota_generation = generation
        for key in range(API_KEYS):
            if self.plain[key] != NULL:
                self.set_hot(<int16_t>key, self.plain[key])

    def left(self, ended):
        """A client has ended that never became a connection."""
        if self.on_closed is not None:
            self.on_closed(ended)

    cdef int64_t wall_ms(self) except -1:
        """Wall clock in ms, read once per loop turn that appends records."""
        if self.now_ms == 0:
            self.now_ms = wall_clock_ms(&self.clock.source)
            self.schedule_flush()
        return self.now_ms

    def before_ticks(self):
        if self.fetch_sessions is not None:
            self.fetch_sessions.tick()

    cdef int answer_waiting(self) except -1:
        """After the write of this turn: every answer that waited for it goes, unless it waits for a sync."""
        cdef list replies = self.unflushed
        cdef list done = None               # if some keep waiting: all others
        cdef Py_ssize_t i
        cdef Reply reply
        self.now_ms = 0
        if not replies:
            return 0
        self.unflushed = []
        for i in range(len(replies)):
            reply = <Reply>replies[i]
            if reply.written():
                if done is None:
                    done = replies[:i]
            elif done is not None:
                done.append(reply)
        return self.release(replies if done is None else done)

    cdef int settle(self, Reply reply, bint leaves) except -1:
        """A Produce request no longer waits for a sync; its answer leaves with `answer_settled`, unless it has none."""
        cdef AnswerQueue connection = reply.connection
        connection.unsettled -= 1
        if connection.held & HELD_FOR_SYNC and connection.unsettled == 0:
            self.freed.append(connection)
        if leaves:
            self.settled_replies.append(reply)
        return 0

    cdef int answer_settled(self) except -1:
        """After a round of group commit: send the answers that waited for it, and handle the requests behind them."""
        cdef list freed, replies
        cdef AnswerQueue connection
        freed, self.freed = self.freed, []
        replies, self.settled_replies = self.settled_replies, []
        for connection in freed:
            connection.held &= ~HELD_FOR_SYNC
        self.release(replies)
        for connection in freed:
            if not connection.closed:
                connection.output_free()
        return 0

    cdef int release(self, list replies) except -1:
        """Let these answers leave, one send per connection."""
        cdef Reply reply
        cdef AnswerQueue connection, first = None, last = None
        cdef int64_t now = now_ns(&self.clock.source) if self.metrics.on else 0
        for reply in replies:
            reply.ready = True
            if reply.mark_ns and now:
                count_time(self.metrics, reply.key, reply.wait_phase, now - reply.mark_ns)
                reply.mark_ns = now
            connection = reply.connection
            if not connection.in_touched:
                connection.in_touched = True
                if last is None:
                    first = connection
                else:
                    last.next_touched = connection
                last = connection
        while first is not None:
            connection, first = first, first.next_touched
            connection.next_touched = None
            connection.in_touched = False
            if not connection.parsing:
                connection.drain_guarded()
        return 0

    cdef int failed(self, FlushedPartition partition, object what, object error) except -1:
        self.log_events.disk_error(f"{partition.topic}-{partition.index}", what, error)
        if self.on_disk_error is not None and partition.log is not None:
            self.on_disk_error(partition.log.directory, error)
        return 0

    def close_idle(self, int64_t idle_ms):
        """Close connections that have been idle for `idle_ms` and wait for no answer; return their number."""
        cdef AnswerQueue connection
        cdef int64_t limit = coarse_ms(&self.clock.source) - idle_ms
        idle = [c for c in self.connections if (<AnswerQueue>c).last_active_ms < limit and (<AnswerQueue>c).pending == 0]
        for connection in idle:
            connection.close()
        return len(idle)

    def close_least_active(self, str listener not None):
        """Close the longest-idle connection of another listener."""
        cdef AnswerQueue connection, found = None
        for connection in self.connections:
            if connection.listener != listener and (found is None or connection.last_active_ms < found.last_active_ms):
                found = connection
        if found is not None:
            found.close()

    def stop_reading(self):
        """First step of a clean shutdown: read no further requests; requests that were read are still answered."""
        cdef AnswerQueue connection
        self.stopping = True
        for connection in list(self.connections):
            connection.stop()

    @property
    def pending_answers(self):
        """Answers that are due, with those of requests that were read and wait for one before."""
        cdef AnswerQueue connection
        cdef Py_ssize_t total = 0
        for connection in self.connections:
            total += connection.pending + len(connection.queue) + connection.has_whole_request()
        return total


cdef class AnswerQueue(Outbox):
    """The sending half of a connection; `Connection` is the other."""

    cdef int output_free(self) except -1:
        """Nothing waits for the socket: the receiving half may continue."""
        return 0

    cdef bint has_whole_request(self) noexcept:
        """Whether the receiving half holds a request that is not handled yet."""
        return False

    cdef int release_input(self) except -1:
        """The connection is closed: the receiving half releases its buffers."""
        return 0

    cdef int add_reply(self, Reply reply) except -1:
        """Take the next place in the order of answers."""
        reply.connection = self
        reply.key = self.key
        reply.received_ns = self.received_ns
        if self.tail is None:
            self.head = reply
        else:
            self.tail.next = reply
        self.tail = reply
        self.pending += 1
        return 0

    cdef int mark_ready(self, Reply reply) except -1:
        """The payload of `reply` is complete: it leaves as soon as all before it have."""
        cdef int64_t now
        reply.ready = True
        if reply.mark_ns and self.server.metrics.on:
            now = now_ns(&self.clock.source)
            count_time(self.server.metrics, reply.key, reply.wait_phase, now - reply.mark_ns)
            reply.mark_ns = now
        if type(reply.payload) is bytes:
            self.ready_bytes += PyBytes_GET_SIZE(reply.payload)
        if not self.parsing and not self.closed and self.head is reply:
            self.drain()
        return 0

    cdef int drain_guarded(self) except -1:
        """`drain` for callers that serve many connections: an error ends this connection only."""
        try:
            self.drain()
        except Exception as error:
            self.broken(error)

    cdef int drain(self) except -1:
        """Send every answer that is ready and next in order."""
        cdef Writer out = self.server.scratch
        cdef bint counted = self.server.metrics.on
        cdef Reply reply, first = None, last = None
        cdef int64_t before
        out.pos = 0
        while self.head is not None and self.head.ready and not self.closed:
            reply = self.head
            self.head = reply.next
            if self.head is None:
                self.tail = None
            reply.next = None
            self.pending -= 1
            before = self.bytes_out + out.pos
            reply.emit(out)
            if counted:
                self.server.metrics.apis[reply.key].response_bytes += self.bytes_out + out.pos - before
                if last is None:
                    first = reply
                else:
                    last.next = reply
                last = reply
            if out.pos >= SCRATCH_BYTES:
                self.push_bytes(out, False)
        self.ready_bytes = 0
        if out.pos and not self.closed:
            self.push_bytes(out, False)
        out.pos = 0
        if first is not None:
            last.next = self.unsent
            self.unsent = first
            if not self.queue:
                self.count_sent()
        return self.after_output()

    cdef int count_sent(self) except -1:
        """The socket took all of the answers that it had not."""
        cdef RequestMetrics metrics = self.server.metrics
        cdef Reply reply = self.unsent
        cdef Reply following
        cdef int64_t now = now_ns(&self.clock.source)
        self.unsent = None
        while reply is not None:
            following = reply.next
            reply.next = None
            if reply.mark_ns:
                count_time(metrics, reply.key, SEND, now - reply.mark_ns)
            if reply.received_ns:
                count_time(metrics, reply.key, TOTAL, now - reply.received_ns)
            reply = following
        return 0

    cdef int emptied(self) except -1:
        if self.unsent is not None and not self.closed:
            self.count_sent()
        return self.drain()

    cdef int after_output(self) except -1:
        if self.closed:
            return 0
        if self.queue:
            if not self.writing:
                self.server.loop.add_writer(self.transport.fd, self.on_writable)
                self.writing = True
            return 0
        if self.closing and self.pending == 0 and not self.has_whole_request():
            return self.close()
        return self.output_free()

    # ---- quotas ----

    @property
    def is_muted(self):
        """Whether a quota still throttles the connection."""
        return self.held & MUTED != 0

    cdef int mute(self, int64_t wait_ms) except -1:
        """Handle no further request for `wait_ms`. Answers still leave."""
        cdef int64_t until_ms = coarse_ms(&self.clock.source) + wait_ms
        if self.closed or self.closing or (self.mute_timer is not None and until_ms <= self.muted_until_ms):
            return 0
        if self.mute_timer is not None:
            self.mute_timer.cancel()
        self.held |= MUTED
        self.muted_until_ms = until_ms
        self.mute_timer = self.server.loop.call_later(wait_ms / 1000.0, self.unmute)
        return 0

    def unmute(self):
        """The wait is over."""
        if self.mute_timer is not None:
            self.mute_timer.cancel()
            self.mute_timer = None
        self.held &= ~MUTED
        if not self.closed:
            try:
                self.output_free()
            except Exception as error:
                self.broken(error)

    # ---- the end ----

    cdef int fail(self, str api, str reason) except -1:
        """Close this connection because of bytes that the peer sent; one rate-limited log line."""
        self.server.log_events.bad_request(self.client_host, self.client_port, api, reason)
        return self.close()

    def broken(self, error):
        """Close this connection after an internal error; the traceback is logged."""
        self.server.log_events.internal_error(self.client_host, self.client_port, error)
        self.close()

    def stop(self):
        """Read nothing more; close as soon as every request that was read is answered."""
        cdef Reply reply, following
        if self.closed:
            return
        self.closing = True
        if self.reading:
            self.server.loop.remove_reader(self.transport.fd)
            self.reading = False
        if self.mute_timer is not None:
            self.unmute()
        reply = self.head
        while reply is not None:
            following = reply.next
            if not reply.ready:
                reply.hurry()
            reply = following
        if self.pending == 0 and not self.queue and not self.has_whole_request():
            self.close()

    cpdef int close(self) except -1:
        """Close the connection immediately. Replies that still wait are cancelled."""
        cdef Reply reply
        if self.closed:
            return 0
        self.closed = True
        self.server.loop.remove_reader(self.transport.fd)
        if self.writing:
            self.server.loop.remove_writer(self.transport.fd)
        self.transport.close()
        if self.mute_timer is not None:
            self.mute_timer.cancel()
            self.mute_timer = None
        self.release_input()
        self.queue = []
        self.unsent = None
        self.server.connections_closed += 1
        reply = self.head
        self.head = self.tail = None
        self.pending = 0
        while reply is not None:
            reply.cancel()
            reply = reply.next
        self.server.connections.pop(self, None)
        if self.server.on_closed is not None:
            self.server.on_closed(self)
        return 0

"""One client connection: it owns its socket, reads requests, keeps the order of answers, writes them.

The loop only tells readiness (add_reader, add_writer); recv, send and sendfile are called here. Bounds are in the .pxd.

Over 400 lines, since a connection, its answers and what all connections share use each other's C fields on every request,
and Cython wants such classes in one module.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.string cimport memcpy, memmove, memset
from posix.time cimport CLOCK_MONOTONIC_COARSE, CLOCK_REALTIME, clock_gettime, timespec

from broker_cy.core.cursor cimport Cursor
from broker_cy.wire.codec cimport decode_at
from broker_cy.wire.produce cimport skip_tags

import os

from broker_cy.core.errors import WireError
from broker_cy.server import log_events
from broker_cy.server.registry import RequestContext
from broker_cy.wire import codec, frame

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object)

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int fd, void* buf, size_t n, int flags)
    ssize_t send(int fd, const void* buf, size_t n, int flags)
    int MSG_NOSIGNAL, MSG_MORE, MSG_DONTWAIT

cdef extern from "sys/sendfile.h" nogil:
    ssize_t sendfile(int out_fd, int in_fd, long* offset, size_t count)

cdef extern from "arpa/inet.h" nogil:
    unsigned int ntohl(unsigned int)
    unsigned short ntohs(unsigned short)

DEFAULT_REQUEST_BYTES_MAX = 104857600
FETCH_BYTES_MAX = 57671680          # fetch.max.bytes
cdef enum:
    API_VERSIONS_KEY = 18


cdef int16_t flexible_from(api_key) except -1:
    """First version of the API whose request header carries tagged fields (RequestHeader v2, KIP-482)."""
    low, high = frame.api_versions(api_key)
    for version in range(low, high + 1):
        if frame.request_header_version(api_key, version) >= 2:
            return version
    return high + 1


cdef bytes response_frame(int16_t key, int16_t version, int32_t correlation_id, object response):
    """Length, response header and body of one answer."""
    cdef Writer writer = Writer()
    writer.i32(0)
    writer.i32(correlation_id)
    if frame.response_header_version(key, version) >= 1:
        writer.i8(0)
    codec.encode_into(writer, response, version)
    writer.patch_i32(0, <int32_t>(writer.pos - 4))
    return PyBytes_FromStringAndSize(<char*>writer.buf, writer.pos)


cdef int64_t coarse_ms() noexcept nogil:
    """Monotonic milliseconds, a few ms coarse: for idle times only."""
    cdef timespec t
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t)
    return <int64_t>t.tv_sec * 1000 + t.tv_nsec // 1000000


cdef inline int32_t be32(const uint8_t* p) noexcept nogil:
    cdef unsigned int v
    memcpy(&v, p, 4)
    return <int32_t>ntohl(v)


cdef inline int16_t be16(const uint8_t* p) noexcept nogil:
    cdef unsigned short v
    memcpy(&v, p, 2)
    return <int16_t>ntohs(v)


@cython.freelist(256)
cdef class Reply:
    cdef int emit(self, Writer out) except -1:
        """Append this answer to `out`, or hand its pieces to the connection in order."""
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

    cdef int written(self) except -1:
        """The write that this answer waited for is done."""
        return 0

    cdef int hurry(self) except -1:
        """The broker stops: answer now with what there is, if that is possible."""
        return 0

    cdef int cancel(self) except -1:
        """The connection went away. A task goes on to its end: what it changes is not the connection's."""
        return 0


@cython.freelist(64)
cdef class OutSlice:
    pass


cdef class ServerCore(FlushGroup):
    """What all connections of a broker share: dispatch table, buffers, the answers that wait for the write."""

    def __init__(self, loop, broker, table, registry, request_bytes_max=DEFAULT_REQUEST_BYTES_MAX, on_closed=None):
        super().__init__(loop)
        self.broker = broker
        self.topics_by_name = table.by_name
        self.topics_by_id = table.by_id
        self.fetch_bytes_max = FETCH_BYTES_MAX
        self.pool = BufferPool()
        self.connections = set()
        self.scratch = Writer()
        self.request_bytes_max = request_bytes_max
        self.on_closed = on_closed
        self.unflushed = []
        self.tasks = set()
        self.registrations = [None] * API_KEYS
        self.request_classes = [None] * API_KEYS
        memset(self.hot, 0, sizeof(self.hot))
        cdef int key
        for key in range(API_KEYS):
            self.min_version[key] = 0
            self.max_version[key] = -1
            self.flexible_from[key] = 32767
        for key, entry in registry.items():
            self.registrations[key] = entry
            self.request_classes[key] = frame.request_class(entry.api_key)
            self.min_version[key] = entry.min_version
            self.max_version[key] = entry.max_version
            self.flexible_from[key] = flexible_from(entry.api_key)

    cdef int set_hot(self, int16_t key, HotHandler function) except -1:
        self.hot[key] = function
        return 0

    cdef int64_t wall_ms(self) except -1:
        """Wall clock in ms, asked once per loop turn in which something is appended."""
        cdef timespec t
        if self.now_ms == 0:
            clock_gettime(CLOCK_REALTIME, &t)
            self.now_ms = <int64_t>t.tv_sec * 1000 + t.tv_nsec // 1000000
            self.schedule_flush()
        return self.now_ms

    cdef int answer_waiting(self) except -1:
        """After the write of this turn: every answer that waited for it goes, one send per connection."""
        cdef list replies = self.unflushed
        cdef list touched = []
        cdef Reply reply
        cdef Connection connection
        self.now_ms = 0
        if not replies:
            return 0
        self.unflushed = []
        for reply in replies:
            reply.written()
            reply.ready = True
            connection = reply.connection
            if not connection.in_touched:
                connection.in_touched = True
                touched.append(connection)
        for connection in touched:
            connection.in_touched = False
            if not connection.parsing:
                connection.drain_guarded()
        return 0

    cdef int failed(self, Partition partition, object what, object error) except -1:
        log_events.disk_error(f"{partition.topic}-{partition.index}", what, error)
        return 0

    def close_idle(self, int64_t idle_ms):
        """Close connections from which nothing came for `idle_ms` and that wait for no answer; how many were closed."""
        cdef Connection connection
        cdef int64_t limit = coarse_ms() - idle_ms
        idle = [c for c in self.connections if (<Connection>c).last_active_ms < limit and (<Connection>c).pending == 0]
        for connection in idle:
            connection.close()
        return len(idle)

    def stop_reading(self):
        """First step of an orderly stop: nothing more is read; what was read goes on to be answered."""
        cdef Connection connection
        self.stopping = True
        for connection in list(self.connections):
            connection.stop()

    @property
    def pending_answers(self):
        cdef Connection connection
        cdef Py_ssize_t total = 0
        for connection in self.connections:
            total += connection.pending + len(connection.queue)
        return total


cdef class Connection:
    def __init__(self, ServerCore server, int fd, str listener, str client_host, int client_port, str local):
        self.server = server
        self.fd = fd
        self.listener = listener
        self.client_host = client_host
        self.client_port = client_port
        self.connection_id = f"{local}-{client_host}:{client_port}-{server.connections_opened}"
        server.connections_opened += 1
        self.queue = []
        self.last_active_ms = coarse_ms()
        server.connections.add(self)
        server.loop.add_reader(fd, self.on_readable)
        self.reading = True

    # ---- input ----

    def on_readable(self):
        if self.closed:
            return
        try:
            self.read()
        except Exception as error:
            self.broken(error)

    cdef int read(self) except -1:
        cdef Py_ssize_t budget = READ_TURN_BYTES
        cdef Py_ssize_t want
        cdef ssize_t n
        if self.must_wait():
            # Answers are held back by a slow reader: leave the rest in the kernel's buffer, which stops the peer.
            self.server.loop.remove_reader(self.fd)
            self.reading = False
            return 0
        while budget > 0:
            want = self.make_room()
            n = recv(self.fd, self.buffer.data + self.in_end, want, MSG_DONTWAIT)
            if n > 0:
                self.in_end += n
                budget -= n
                self.parse()
                if self.closed:
                    return 0
                if n < want or self.must_wait():
                    break
            elif n == 0:
                self.close()
                return 0
            elif errno == EINTR:
                continue
            elif errno == EAGAIN:
                break
            else:
                self.close()
                return 0
        self.last_active_ms = coarse_ms()
        self.settle()
        return 0

    cdef Py_ssize_t make_room(self) except -1:
        """Have a buffer with room after `in_end`; how much to read now."""
        cdef Py_ssize_t unparsed, frame_bytes = 0, target, room
        cdef RecvBuffer fresh
        if self.buffer is None:
            unparsed = 0 if self.carry is None else PyBytes_GET_SIZE(self.carry)
            self.buffer = self.server.pool.acquire(BUFFER_BYTES)
            if unparsed:
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
            # Never more than twice what arrived, or than what this connection has sent before: a length is only a claim.
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
        """Give the buffer back where nothing of it is left to parse; keep a short rest in an object of its size."""
        cdef Py_ssize_t unparsed
        if self.buffer is None:
            return 0
        unparsed = self.in_end - self.in_start
        if unparsed == 0:
            self.buffer = None
        elif unparsed < CARRY_BYTES:
            self.carry = PyBytes_FromStringAndSize(<char*>self.buffer.data + self.in_start, unparsed)
            self.buffer = None
        return 0

    cdef bint must_wait(self) noexcept:
        return len(self.queue) > 0 or self.pending >= PENDING_MAX or self.closing

    cdef int parse(self) except -1:
        """Handle every whole request in the buffer, as long as this connection may."""
        cdef Py_ssize_t size
        cdef const uint8_t* p
        self.parsing = True
        try:
            # Sending what is ready, or the write of what is staged, may end this connection: then its buffer is gone.
            while not self.closed and self.in_end - self.in_start >= 4 and not self.must_wait():
                p = self.buffer.data + self.in_start
                size = be32(p)
                if size < 0 or size > self.server.request_bytes_max:
                    return self.fail("", f"a request of {size} bytes; 0 to {self.server.request_bytes_max} are allowed "
                                         "(socket.request.max.bytes)")
                if self.in_end - self.in_start - 4 < size:
                    break
                self.in_start += 4 + size
                if size + 4 > self.proven_bytes:
                    self.proven_bytes = size + 4
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

    cdef int process(self, const uint8_t* p, Py_ssize_t n) except -1:
        """One request: header, then the handler of its API."""
        cdef int16_t key, version, client_id_length
        cdef int32_t correlation_id
        cdef Cursor cursor
        cdef object client_id = None
        cdef Py_ssize_t at
        if n < 8:
            return self.fail("", f"a request of {n} bytes is shorter than its header")
        key = be16(p)
        version = be16(p + 2)
        correlation_id = be32(p + 4)
        if (key < 0 or key >= API_KEYS or version < self.server.min_version[key]
                or version > self.server.max_version[key]):
            return self.answer_unsupported(key, version, correlation_id)
        if n < 10:
            return self.fail(self.api_name(key), "the request ends within its header")
        client_id_length = be16(p + 8)
        at = 10
        if client_id_length >= 0:
            if at + client_id_length > n:
                return self.fail(self.api_name(key), f"client_id of {client_id_length} bytes passes the request's end")
            at += client_id_length
        elif client_id_length != -1:
            return self.fail(self.api_name(key), f"client_id length {client_id_length}")
        self.server.requests += 1
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
        except WireError as error:
            return self.fail(f"{self.api_name(key)} v{version}", str(error))
        if client_id_length >= 0:
            client_id = PyBytes_FromStringAndSize(<char*>p + 10, client_id_length).decode("utf-8", "replace")
        return self.call_handler(key, version, correlation_id, client_id, p + at, n - at)

    cdef str api_name(self, int16_t key):
        entry = self.server.registrations[key] if 0 <= key < API_KEYS else None
        return entry.api_key.name if entry is not None else f"api {key}"

    cdef int answer_unsupported(self, int16_t key, int16_t version, int32_t correlation_id) except -1:
        """ApiVersions of an unknown version is answered in version 0 (KIP-511); all else closes, as in Kafka."""
        if key == API_VERSIONS_KEY:
            return self.call_handler(key, -1, correlation_id, None, NULL, 0)
        if 0 <= key < API_KEYS and self.server.max_version[key] >= 0:
            return self.fail(self.api_name(key), f"version {version} is not served; "
                             f"{self.server.min_version[key]} to {self.server.max_version[key]} are")
        return self.fail(f"api {key}", "this API is not served")

    cdef int call_handler(self, int16_t key, int16_t version, int32_t correlation_id, object client_id,
                          const uint8_t* body, Py_ssize_t n) except -1:
        """Run a handler written in Python, at once or as a task."""
        cdef object entry = self.server.registrations[key]
        cdef object request = None
        cdef Reply reply = Reply.__new__(Reply)
        reply.correlation_id = correlation_id
        if body != NULL:
            try:
                request = decode_at(self.server.request_classes[key], version, Cursor.over(body, n, self.buffer))
            except WireError as error:
                return self.fail(f"{self.api_name(key)} v{version}", str(error))
        context = RequestContext(self.server.broker, key, version, client_id, self.client_host, self.listener,
                                 self.connection_id)
        self.add_reply(reply)
        if entry.is_async:
            task = self.server.loop.create_task(entry.function(context, request))
            reply.task = task
            self.server.tasks.add(task)
            task.add_done_callback(_Completion(reply, key, version))
            return 0
        response = entry.function(context, request)
        reply.payload = response_frame(key, max(version, 0), correlation_id, response)
        return self.mark_ready(reply)

    # ---- answers ----

    cdef int add_reply(self, Reply reply) except -1:
        """Take the next place in the order of answers."""
        reply.connection = self
        if self.tail is None:
            self.head = reply
        else:
            self.tail.next = reply
        self.tail = reply
        self.pending += 1
        return 0

    cdef int mark_ready(self, Reply reply) except -1:
        """The payload of `reply` is complete: it leaves as soon as all before it have."""
        reply.ready = True
        if type(reply.payload) is bytes:
            self.ready_bytes += PyBytes_GET_SIZE(reply.payload)
        if not self.parsing and not self.closed and self.head is reply:
            self.drain()
        return 0

    cdef int drain_guarded(self) except -1:
        """`drain` for callers that serve many connections: what goes wrong ends this connection only."""
        try:
            self.drain()
        except Exception as error:
            self.broken(error)

    cdef int drain(self) except -1:
        """Send every answer that is ready and next in order."""
        cdef Writer out = self.server.scratch
        cdef Reply reply
        out.pos = 0
        while self.head is not None and self.head.ready and not self.closed:
            reply = self.head
            self.head = reply.next
            if self.head is None:
                self.tail = None
            reply.next = None
            self.pending -= 1
            reply.emit(out)
            if out.pos >= SCRATCH_BYTES:
                self.push_bytes(out, False)
        self.ready_bytes = 0
        if out.pos and not self.closed:
            self.push_bytes(out, False)
        out.pos = 0
        return self.after_output()

    cdef int after_output(self) except -1:
        if self.closed:
            return 0
        if self.queue:
            if not self.writing:
                self.server.loop.add_writer(self.fd, self.on_writable)
                self.writing = True
            return 0
        if self.closing and self.pending == 0:
            return self.close()
        if self.buffer is not None or self.carry is not None or not self.reading:
            if not self.parsing and not self.resume_scheduled and not self.must_wait():
                if not self.reading or self.has_whole_request():
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

    def resume(self):
        """Go on with requests that were left while answers were held back."""
        self.resume_scheduled = False
        if self.closed or self.must_wait():
            return
        try:
            if not self.reading and not self.closing:
                self.server.loop.add_reader(self.fd, self.on_readable)
                self.reading = True
            if self.buffer is not None or self.carry is not None:
                self.make_room()
                self.parse()
                if not self.closed:
                    self.settle()
        except Exception as error:
            self.broken(error)

    cdef int push_bytes(self, Writer out, bint more) except -1:
        """Send what `out` gathered, or queue what the socket does not take; empties `out`."""
        cdef Py_ssize_t done = 0
        cdef ssize_t n
        if self.closed:
            out.pos = 0             # the descriptor may already be another's
            return 0
        if not self.queue:
            while done < out.pos:
                n = send(self.fd, out.buf + done, out.pos - done, MSG_NOSIGNAL | MSG_DONTWAIT | (MSG_MORE if more else 0))
                if n >= 0:
                    done += n
                elif errno == EINTR:
                    continue
                elif errno == EAGAIN:
                    break
                else:
                    out.pos = 0
                    return self.close()
        if done < out.pos:
            self.queue.append(PyBytes_FromStringAndSize(<char*>out.buf + done, out.pos - done))
        out.pos = 0
        return 0

    cdef int push_slice(self, LogSlice part) except -1:
        """Send a slice of a segment file, or queue what the socket does not take."""
        cdef OutSlice item
        if self.closed:
            return 0
        item = OutSlice.__new__(OutSlice)
        item.part = part
        item.sent = 0
        if self.queue or not self.send_slice(item, SENDFILE_TURN_BYTES):
            if not self.closed:
                self.queue.append(item)
        return 0

    cdef bint send_slice(self, OutSlice item, Py_ssize_t budget) except *:
        """Whether the slice is sent to its end. A file that became shorter (truncated) ends the connection."""
        cdef long at
        cdef ssize_t n
        while item.sent < item.part.size:
            if budget <= 0:
                return False
            at = item.part.position + item.sent
            n = sendfile(self.fd, item.part.fd, &at, min(item.part.size - item.sent, budget))
            if n > 0:
                item.sent += n
                budget -= n
            elif n == 0:
                self.fail("Fetch", "the segment became shorter while it was sent")
                return False
            elif errno == EINTR:
                continue
            elif errno == EAGAIN:
                return False
            else:
                self.close()
                return False
        return True

    def on_writable(self):
        if self.closed:
            return
        try:
            self.write_queue()
        except Exception as error:
            self.broken(error)

    cdef int write_queue(self) except -1:
        cdef Py_ssize_t budget = SENDFILE_TURN_BYTES
        cdef Py_ssize_t size
        cdef ssize_t n
        cdef int sent_items = 0
        cdef object item
        while sent_items < len(self.queue) and budget > 0:
            item = self.queue[sent_items]
            if type(item) is bytes:
                size = PyBytes_GET_SIZE(item)
                n = send(self.fd, PyBytes_AS_STRING(item), size, MSG_NOSIGNAL | MSG_DONTWAIT
                         | (MSG_MORE if sent_items + 1 < len(self.queue) else 0))
                if n < 0:
                    if errno == EINTR:
                        continue
                    if errno != EAGAIN:
                        return self.close()
                    break
                if n < size:
                    self.queue[sent_items] = item[n:]
                    break
                budget -= size
            else:
                if not self.send_slice(<OutSlice>item, budget):
                    if self.closed:
                        return 0
                    break
                budget -= (<OutSlice>item).part.size
            sent_items += 1
        if sent_items:
            del self.queue[:sent_items]
            self.last_active_ms = coarse_ms()
        if not self.queue:
            self.server.loop.remove_writer(self.fd)
            self.writing = False
            self.drain()
        return 0

    # ---- the end ----

    cdef int fail(self, str api, str reason) except -1:
        """Close this connection for what the peer sent; one log line, rate-limited."""
        log_events.bad_request(self.client_host, self.client_port, api, reason)
        return self.close()

    def broken(self, error):
        """Close this connection after an error of ours; the traceback is logged."""
        log_events.internal_error(self.client_host, self.client_port, error)
        self.close()

    def stop(self):
        """Read nothing more; close as soon as every answer due is sent."""
        cdef Reply reply, following
        if self.closed:
            return
        self.closing = True
        if self.reading:
            self.server.loop.remove_reader(self.fd)
            self.reading = False
        reply = self.head
        while reply is not None:
            following = reply.next
            if not reply.ready:
                reply.hurry()
            reply = following
        if self.pending == 0 and not self.queue:
            self.close()

    cpdef int close(self) except -1:
        """End the connection at once; handlers that still run for it are cancelled."""
        cdef Reply reply
        if self.closed:
            return 0
        self.closed = True
        self.server.loop.remove_reader(self.fd)
        if self.writing:
            self.server.loop.remove_writer(self.fd)
        os.close(self.fd)
        self.buffer = None
        self.carry = None
        self.queue = []
        reply = self.head
        self.head = self.tail = None
        self.pending = 0
        while reply is not None:
            reply.cancel()
            reply = reply.next
        self.server.connections.discard(self)
        if self.server.on_closed is not None:
            self.server.on_closed(self)
        return 0


cdef class _Completion:
    """Turns the result of a handler's task into the answer."""
    cdef Reply reply
    cdef int16_t key
    cdef int16_t version

    def __cinit__(self, Reply reply, int16_t key, int16_t version):
        self.reply = reply
        self.key = key
        self.version = version

    def __call__(self, task):
        cdef Connection connection = self.reply.connection
        connection.server.tasks.discard(task)
        self.reply.task = None
        if connection.closed or task.cancelled():
            return
        error = task.exception()
        if error is not None:
            connection.broken(error)
            return
        try:
            self.reply.payload = response_frame(self.key, self.version, self.reply.correlation_id, task.result())
            connection.mark_ready(self.reply)
        except Exception as failure:
            connection.broken(failure)

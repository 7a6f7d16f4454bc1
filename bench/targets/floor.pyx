"""The bare-system-call floor: a single-threaded server that performs for each request only the work that any broker
must do.

Produce: recv, CRC-32C of the batch, one pwrite, one send per request. Fetch: a header and sendfile from the page cache.
It understands exactly the frames that bench.wire.protocol builds (Produce 12, Fetch 12, one partition each, equal
batches within a partition; ListOffsets 1), trusts them, and writes base offsets, so that the same driver can load it
with the same checks. A broker that combines the requests of one wake-up into one pwrite and one send can be below this
floor with small requests.
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memmove, memset
from posix.types cimport off_t
from posix.unistd cimport pwrite

import os
import select
import socket

from bench.wire.replies cimport View, take, uvarint
from bench.wire.system cimport (
    EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, MSG_MORE, bench_crc32c, epoll_ctl, epoll_event, epoll_pwait2, get32, put32, put64,
    recv, send, sendfile,
)

cdef enum:
    CONNECTIONS_MAX = 4096      # highest file descriptor served
    PARTITIONS_MAX = 64
    FRAME_MAX = 8 << 20         # bytes of one request
    HEADER_MAX = 512            # bytes of a response without records
    OFFSETS_MAX = 2048          # bytes of a ListOffsets response: PARTITIONS_MAX entries of 22 bytes, and a name
    COUNT_AT = 57               # of a record batch
    CRC_AT = 17
    # Kafka's default of socket.send.buffer.bytes. sendfile costs half as much as with a buffer that auto-tunes to
    # megabytes: the reader finds the data that it copies in the processor's cache.
    SEND_BUFFER = 102400
    TAIL = 3                    # empty tag buffers after the records of a fetch response
    COVERED_AT = 21


cdef struct Conn:
    uint8_t* inbox
    Py_ssize_t size, capacity
    int file                    # what sendfile still has to send
    off_t position
    Py_ssize_t left, tail_left  # bytes of the file, then of TAIL
    bint waiting                # for EPOLLOUT


cdef struct Part:
    int fd
    int64_t end_offset, batch_bytes, batch_records
    off_t size


cdef class FloorServer:
    """Serves one directory until its process ends; `serve` never returns."""

    cdef Conn* conns            # by file descriptor
    cdef Part parts[PARTITIONS_MAX]
    cdef object directory, listener, epoll
    cdef dict sockets

    def __cinit__(self):
        self.conns = <Conn*> calloc(CONNECTIONS_MAX, sizeof(Conn))
        if self.conns is NULL:
            raise MemoryError

    def __init__(self, directory):
        cdef int i
        self.directory = directory
        for i in range(PARTITIONS_MAX):
            self.parts[i].fd = -1
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.epoll = select.epoll()
        self.sockets = {}

    def __dealloc__(self):
        cdef int i
        if self.conns == NULL:
            return
        for i in range(CONNECTIONS_MAX):
            free(self.conns[i].inbox)
        free(self.conns)

    @property
    def address(self):
        """(host, port)."""
        return self.listener.getsockname()

    def serve(self):
        """Accept and answer, forever."""
        cdef int fd, epoll_fd = self.epoll.fileno(), listener = self.listener.fileno()
        self.epoll.register(self.listener.fileno(), EPOLLIN)
        while True:
            with nogil:
                fd = self._loop(epoll_fd, listener)
            if fd == self.listener.fileno():
                sock, _ = self.listener.accept()
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
                if sock.fileno() >= CONNECTIONS_MAX:
                    raise OSError(f"more than {CONNECTIONS_MAX} files are open")
                self.sockets[sock.fileno()] = sock
                memset(&self.conns[<int> sock.fileno()], 0, sizeof(Conn))
                self.epoll.register(sock.fileno(), EPOLLIN)
            elif fd in self.sockets:
                self.sockets.pop(fd).close()
                free(self.conns[fd].inbox)
                self.conns[fd].inbox = NULL

    cdef int _loop(self, int epoll_fd, int listener) except -1 nogil:
        """Serve until something other than data happens; returns the listener's or the ended connection's descriptor."""
        cdef epoll_event events[64]
        cdef int i, n, fd
        while True:
            n = epoll_pwait2(epoll_fd, events, 64, NULL, NULL)
            for i in range(n):
                fd = <int> events[i].data.u32
                if fd == listener or self._ready(epoll_fd, fd) < 0:
                    return fd

    cdef int _ready(self, int epoll_fd, int fd) noexcept nogil:
        """Send the remaining bytes, or else receive once and serve each complete request; -1 ends the connection."""
        cdef Conn* conn = &self.conns[fd]
        cdef Py_ssize_t got, at = 0, size
        cdef uint8_t* grown
        if conn.tail_left:
            return self._send_rest(epoll_fd, fd)
        if conn.size + 65536 > conn.capacity:
            grown = <uint8_t*> realloc(conn.inbox, max(256 << 10, 2 * conn.capacity))
            if grown is NULL:
                return -1
            conn.inbox, conn.capacity = grown, max(256 << 10, 2 * conn.capacity)
        got = recv(fd, conn.inbox + conn.size, conn.capacity - conn.size, 0)
        if got <= 0:
            return 0 if got < 0 and errno in (EAGAIN, EINTR) else -1
        conn.size += got
        while conn.size - at >= 4:
            size = 4 + get32(conn.inbox + at)
            if size < 16 or size > FRAME_MAX:
                return -1
            if conn.size - at < size:
                break
            if self._request(epoll_fd, fd, conn.inbox + at, size) < 0:
                return -1
            at += size
        conn.size -= at
        memmove(conn.inbox, conn.inbox + at, conn.size)
        return 0

    cdef int _request(self, int epoll_fd, int fd, uint8_t* frame, Py_ssize_t size) noexcept nogil:
        cdef View view
        cdef uint8_t head[HEADER_MAX]
        cdef const uint8_t* name
        cdef int64_t name_size
        cdef Py_ssize_t n = 9
        view.p, view.end, view.bad = frame + 12, frame + size, False
        take(&view, 2 + (frame[12] << 8 | frame[13]) + 1)       # client id, tags
        put32(head + 4, get32(frame + 8))
        head[8] = 0
        if frame[5] == 18:                                      # ApiVersions 0: no error, no APIs
            memset(head + 8, 0, 6)
            put32(head, 10)
            return 0 if send(fd, head, 14, 0) == 14 else -1
        if frame[5] == 2:
            return self._list_offsets(fd, get32(frame + 8), frame + 14 + (frame[12] << 8 | frame[13]), &view)
        if frame[5] == 0:
            take(&view, 1 + 2 + 4)                              # transactional id, acks, timeout
        else:
            take(&view, 4 + 4 + 4 + 4 + 1 + 4 + 4)              # replica ... session epoch
            memset(head + 9, 0, 10)                             # throttle, error, session
            n += 10
        take(&view, 1)
        name = view.p
        name_size = uvarint(&view)
        take(&view, name_size - 1)
        if view.bad or name_size > 127 or view.end - view.p < 20:
            return -1
        head[n] = 2
        memcpy(head + n + 1, name, name_size)                   # the length byte and the name
        head[n + 1 + name_size] = 2
        n += 2 + name_size
        take(&view, 1)
        if frame[5] == 0:
            return self._produce(fd, head, n, &view)
        return self._fetch(epoll_fd, fd, head, n, &view)

    cdef int _list_offsets(self, int fd, int32_t correlation_id, const uint8_t* body, View* view) noexcept nogil:
        cdef uint8_t answer[OFFSETS_MAX]
        cdef const uint8_t* asked
        cdef Part* part
        cdef int32_t name_size, count, _i
        cdef Py_ssize_t n
        view.p = body
        asked = take(view, 4 + 4 + 2)                           # replica, number of topics, length of the name
        if asked is NULL:
            return -1
        name_size = asked[8] << 8 | asked[9]
        take(view, name_size)
        asked = take(view, 4)
        if asked is NULL or name_size > 249:
            return -1
        count = get32(asked)
        put32(answer + 4, correlation_id)
        put32(answer + 8, 1)
        memcpy(answer + 12, body + 8, 2 + name_size)
        n = 14 + name_size
        put32(answer + n, count)
        n += 4
        for _i in range(count):
            asked = take(view, 4 + 8)
            part = self._part(get32(asked)) if asked is not NULL else NULL
            if part is NULL or n + 22 > OFFSETS_MAX:
                return -1
            memcpy(answer + n, asked, 4)
            memset(answer + n + 4, 0, 2)
            memset(answer + n + 6, 0xFF, 8)                     # timestamp -1
            put64(answer + n + 14, part.end_offset if get32(asked + 8) == -1 else 0)
            n += 22
        put32(answer, <int32_t> (n - 4))
        return 0 if send(fd, answer, n, 0) == n else -1

    cdef Part* _part(self, int32_t index) noexcept nogil:
        if index < 0 or index >= PARTITIONS_MAX:
            return NULL
        if self.parts[index].fd < 0:
            with gil:
                path = os.path.join(self.directory, f"{index}.log")
                self.parts[index].fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o644)
        return &self.parts[index]

    cdef int _produce(self, int fd, uint8_t* head, Py_ssize_t n, View* view) noexcept nogil:
        cdef const uint8_t* index = take(view, 4)
        cdef Py_ssize_t size = uvarint(view) - 1
        cdef uint8_t* batch = <uint8_t*> take(view, size)
        cdef Part* part = self._part(get32(index))
        if batch is NULL or size < 61 or part is NULL:
            return -1
        if bench_crc32c(batch + COVERED_AT, size - COVERED_AT) != <uint32_t> get32(batch + CRC_AT):
            return -1
        put64(batch, part.end_offset)
        if pwrite(part.fd, batch, size, part.size) != size:
            return -1
        part.size += size
        part.batch_bytes, part.batch_records = size, get32(batch + COUNT_AT)
        memcpy(head + n, index, 4)
        memset(head + n + 4, 0, 2)
        put64(head + n + 6, part.end_offset)
        memset(head + n + 14, 0xFF, 8)                          # log append time -1
        memset(head + n + 22, 0, 8 + 9)                         # log start offset; message, tags, throttle time
        head[n + 30] = 1                                        # no record errors
        n += 31 + 1 + 1 + 1 + 4 + 1
        part.end_offset += part.batch_records
        put32(head, <int32_t> (n - 4))
        return 0 if send(fd, head, n, 0) == n else -1

    cdef int _fetch(self, int epoll_fd, int fd, uint8_t* head, Py_ssize_t n, View* view) noexcept nogil:
        cdef const uint8_t* p = take(view, 4 + 4 + 8 + 4 + 8 + 4)   # index, epoch, offset, fetched epoch, start, max bytes
        cdef Part* part
        cdef Conn* conn = &self.conns[fd]
        cdef int64_t offset, size, rest
        if p is NULL:
            return -1
        part = self._part(get32(p))
        if part is NULL or part.batch_records == 0 or p[8] & 0x80:
            return -1
        offset = get32(p + 8) * <int64_t> 4294967296 + <uint32_t> get32(p + 12)
        conn.position = offset // part.batch_records * part.batch_bytes
        size = get32(p + 28) // part.batch_bytes * part.batch_bytes
        size = min(max(size, part.batch_bytes), part.size - conn.position)
        if size <= 0:
            return -1
        memcpy(head + n, p, 4)
        memset(head + n + 4, 0, 2)
        put64(head + n + 6, part.end_offset)
        put64(head + n + 14, part.end_offset)
        put64(head + n + 22, 0)
        head[n + 30] = 0                                        # no aborted transactions
        put32(head + n + 31, -1)
        n += 35
        rest = size + 1
        while rest > 0x7F:
            head[n] = rest & 0x7F | 0x80
            rest >>= 7
            n += 1
        head[n] = rest
        n += 1
        put32(head, <int32_t> (n - 4 + size + TAIL))
        if send(fd, head, n, MSG_MORE) != n:
            return -1
        conn.file, conn.left, conn.tail_left = part.fd, size, TAIL
        return self._send_rest(epoll_fd, fd)

    cdef int _send_rest(self, int epoll_fd, int fd) noexcept nogil:
        cdef Conn* conn = &self.conns[fd]
        cdef epoll_event event
        cdef Py_ssize_t sent
        event.data.u32 = fd
        while conn.tail_left:
            if conn.left:
                sent = sendfile(fd, conn.file, &conn.position, conn.left)
            else:
                sent = send(fd, b"\0\0\0", conn.tail_left, 0)
            if sent < 0 and errno == EAGAIN:
                conn.waiting = True
                event.events = EPOLLOUT
                return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event)
            if sent <= 0:
                return -1
            if conn.left:
                conn.left -= sent
            else:
                conn.tail_left -= sent
        if not conn.waiting:
            return 0
        conn.waiting = False
        event.events = EPOLLIN
        return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event)

"""Sending requests on the load driver's connections, and receiving bytes, with TLS and without.

A request in flight occupies a ring slot, and writev sends its frame directly from the template: only the twelve bytes
up to the correlation id are written per request.
"""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.errno cimport EAGAIN, ECONNRESET, EINTR, EPROTO, errno
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy, strerror

import ssl

from bench.wire.connections cimport (
    CORRELATION_AT, FETCH_STRIDE, HEAD, IOV_MAX_USED, RECORD, Conn, Connections, Flight, Slot, Template,
)
from bench.wire.sequences cimport BATCH_HEADER, next_sequence, stamp_header
from bench.wire.system cimport (
    EPOLL_CTL_MOD, EPOLLIN, EPOLLOUT, epoll_ctl, epoll_event, iovec, now_ns, put32, put64, recv, writev,
)


cdef class Transfer(Connections):
    """The requests and bytes that go over `Connections`."""

    cdef bint _has_room(self, Conn* conn) noexcept nogil:
        """Return whether another request can be in flight; grows the ring up to its limit."""
        cdef Flight* grown
        cdef uint8_t* headers
        cdef int64_t number
        if conn.issued - conn.answered < conn.ring_size:
            return True
        if conn.ring_size >= self.ring_cap:
            return False
        grown = <Flight*> malloc(2 * conn.ring_size * sizeof(Flight))
        if grown is NULL:
            return False
        if conn.headers is not NULL:
            headers = <uint8_t*> malloc(2 * conn.ring_size * BATCH_HEADER)
            if headers is NULL:
                free(grown)
                return False
            for number in range(conn.answered, conn.issued):
                memcpy(headers + number % (2 * conn.ring_size) * BATCH_HEADER,
                       conn.headers + number % conn.ring_size * BATCH_HEADER, BATCH_HEADER)
            free(conn.headers)
            conn.headers = headers
        for number in range(conn.answered, conn.issued):
            grown[number % (2 * conn.ring_size)] = conn.ring[number % conn.ring_size]
        free(conn.ring)
        conn.ring = grown
        conn.ring_size *= 2
        return True

    cdef void _issue(self, Conn* conn, int64_t due_ns) noexcept nogil:
        cdef Flight* flight = &conn.ring[conn.issued % conn.ring_size]
        cdef Template* template = &conn.templates[conn.next_template]
        cdef Slot* slot
        cdef int i
        flight.due_ns = due_ns
        flight.template_index = conn.next_template
        memcpy(flight.head, template.frame, CORRELATION_AT)
        put32(flight.head + CORRELATION_AT, <int32_t> (conn.issued & 0x7FFFFFFF))
        if self.fetching:
            for i in range(template.slot_count):
                put64(<uint8_t*> template.frame + template.offset_at + i * FETCH_STRIDE,
                      conn.slots[template.slots[i]].next_offset)
        elif conn.headers is not NULL:
            slot = &conn.slots[template.slots[0]]
            stamp_header(
                conn.headers + conn.issued % conn.ring_size * BATCH_HEADER, template.payload, &conn.producer, slot.sequence,
                template.records_crc, template.shift,
            )
            slot.sequence = next_sequence(slot.sequence, template.records)
            slot.sent += template.records
        if conn.issued == conn.answered:
            conn.heard_ns = now_ns()                    # from now on the target owes a response
        conn.issued += 1
        conn.next_template += 1
        if conn.next_template == conn.template_count:
            conn.next_template = 0

    cdef int _flush(self, Conn* conn) noexcept nogil:
        """Write the issued requests; if the socket is full, wait for EPOLLOUT."""
        cdef iovec iov[IOV_MAX_USED]
        cdef int used, code
        cdef int64_t number
        cdef Py_ssize_t skip, wrote
        cdef Flight* flight
        cdef Template* template
        if conn.dead:
            return -1
        while conn.flushed < conn.issued:
            used, number, skip = 0, conn.flushed, conn.partial
            while number < conn.issued and used + 4 <= IOV_MAX_USED:
                flight = &conn.ring[number % conn.ring_size]
                template = &conn.templates[flight.template_index]
                if skip < HEAD:
                    iov[used].iov_base, iov[used].iov_len = flight.head + skip, HEAD - skip
                    used += 1
                    skip = HEAD
                if skip < template.frame_size:
                    iov[used].iov_base, iov[used].iov_len = <void*> (template.frame + skip), template.frame_size - skip
                    used += 1
                    skip = template.frame_size
                if conn.headers is not NULL and skip < template.frame_size + BATCH_HEADER:
                    iov[used].iov_base = conn.headers + number % conn.ring_size * BATCH_HEADER + (skip - template.frame_size)
                    iov[used].iov_len = template.frame_size + BATCH_HEADER - skip
                    used += 1
                    skip = template.frame_size + BATCH_HEADER
                if skip < template.size:
                    iov[used].iov_base = <void*> (template.payload + (skip - template.frame_size))
                    iov[used].iov_len = template.size - skip
                    used += 1
                number += 1
                skip = 0
            wrote = self._put(conn, iov, used) if conn.is_tls else writev(conn.fd, iov, used)
            if wrote < 0:
                code = <int> -wrote if conn.is_tls else errno
                if code == EAGAIN:
                    return self._watch(conn, True)
                if code == EINTR:
                    continue
                return self._lose(conn, "writev: %s%.0lld", strerror(code), 0)
            conn.partial += wrote
            while conn.flushed < conn.issued:
                template = &conn.templates[conn.ring[conn.flushed % conn.ring_size].template_index]
                if conn.partial < template.size:
                    break
                conn.partial -= template.size
                self._flushed(conn)
        # Without responses, a closed loop continues when the socket has room.
        return self._watch(conn, self.unanswered and not self.open_loop and self.begun < self.total)

    cdef Py_ssize_t _put(self, Conn* conn, const iovec* iov, int count) noexcept nogil:
        """Like writev, with TLS; a negative errno if it fails. A repeated call begins at the same byte, as required."""
        cdef uint8_t record[RECORD]
        cdef Py_ssize_t size = 0, part
        cdef int i
        for i in range(count):
            part = min(<Py_ssize_t> iov[i].iov_len, RECORD - size)
            memcpy(record + size, iov[i].iov_base, part)
            size += part
            if size == RECORD:
                break
        return self._encrypt(conn, record, size)

    cdef Py_ssize_t _encrypt(self, Conn* conn, uint8_t* data, Py_ssize_t size) noexcept with gil:
        try:
            return self.sockets[conn - self.conns].send(PyMemoryView_FromMemory(<char*> data, size, PyBUF_READ))
        except Exception as error:
            return _refused(error)

    cdef void _flushed(self, Conn* conn) noexcept nogil:
        """Handle the complete sending of the oldest unsent request."""
        conn.flushed += 1

    cdef int _watch(self, Conn* conn, bint write) noexcept nogil:
        cdef epoll_event event
        if conn.wants_write == write:
            return 0
        conn.wants_write = write
        event.events = EPOLLIN | (EPOLLOUT if write else 0)
        event.data.u32 = <uint32_t> (conn - self.conns)
        if epoll_ctl(self.epoll_fd, EPOLL_CTL_MOD, conn.fd, &event) < 0:
            return self._lose(conn, "epoll_ctl: %s%.0lld", strerror(errno), 0)
        return 0

    # ------------------------------------------------------------------------------------------------ receiving

    cdef Py_ssize_t _take(self, Conn* conn, uint8_t* into, Py_ssize_t room) noexcept nogil:
        """Like recv, with TLS if the connection has it; a negative errno if it fails."""
        cdef Py_ssize_t got
        if conn.is_tls:
            return self._decrypt(conn, into, room)
        got = recv(conn.fd, into, room, 0)
        return -errno if got < 0 else got

    cdef Py_ssize_t _decrypt(self, Conn* conn, uint8_t* into, Py_ssize_t room) noexcept with gil:
        cdef Py_ssize_t total = 0, got
        sock = self.sockets[conn - self.conns]
        try:
            while total < room:
                got = sock.recv_into(PyMemoryView_FromMemory(<char*> into + total, room - total, PyBUF_WRITE))
                if got == 0:
                    break
                total += got
        except Exception as error:
            if total == 0:
                return _refused(error)
        # The loop is not woken for data that the library has decrypted and that is still unread.
        conn.is_pending = total == room and sock.pending() > 0
        return total

    cdef bint _grow_inbox(self, Conn* conn, Py_ssize_t wanted) noexcept nogil:
        cdef uint8_t* grown
        if conn.inbox_capacity >= wanted:
            return True
        grown = <uint8_t*> realloc(conn.inbox, wanted)
        if grown is NULL:
            return False
        conn.inbox, conn.inbox_capacity = grown, wanted
        return True


cdef Py_ssize_t _refused(error) noexcept:
    """Return the negative errno that a system call would set."""
    if isinstance(error, (ssl.SSLWantReadError, ssl.SSLWantWriteError)):
        return -EAGAIN
    if isinstance(error, ssl.SSLEOFError):
        return -ECONNRESET
    return -EPROTO if isinstance(error, ssl.SSLError) else -(getattr(error, "errno", None) or EPROTO)

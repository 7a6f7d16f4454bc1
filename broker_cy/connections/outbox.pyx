"""The output to one transport, in order: bytes, and parts of segment files with sendfile. Output that the transport does not take
is queued until it can be written.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN

from broker_cy.core.clock cimport coarse_ms


@cython.freelist(64)
cdef class OutSlice:
    pass


cdef class Outbox:
    """Subclassed by the connection, which defines the reaction to an empty queue, and to a failed socket."""

    cdef int emptied(self) except -1:
        """All that was queued is with the socket."""
        return 0

    cdef int fail(self, str api, str reason) except -1:
        """Close the connection and log the reason."""
        raise NotImplementedError("an Outbox without fail")

    cpdef int close(self) except -1:
        """End the connection."""
        raise NotImplementedError("an Outbox without close")

    def broken(self, error):
        """Close the connection after an internal error."""
        raise NotImplementedError("an Outbox without broken")

    cdef int push_bytes(self, Writer out, bint more) except -1:
        """Send the content of `out`, and queue the rest that the socket does not take; empties `out`."""
        cdef Py_ssize_t done = 0
        cdef ssize_t n
        if self.closed:
            out.pos = 0             # the descriptor may already be another's
            return 0
        self.bytes_out += out.pos
        if not self.queue:
            while done < out.pos:
                n = self.transport.send(out.buf + done, out.pos - done, more)
                if n >= 0:
                    done += n
                elif n == -EAGAIN:
                    break
                else:
                    out.pos = 0
                    return self.close()
        if done < out.pos:
            self.queue.append(PyBytes_FromStringAndSize(<char*>out.buf + done, out.pos - done))
        out.pos = 0
        return 0

    cdef int push_slice(self, LogSlice part) except -1:
        """Send a slice of a segment file, and queue the rest that the socket does not take."""
        cdef OutSlice item
        if self.closed:
            return 0
        self.bytes_out += part.size
        item = OutSlice.__new__(OutSlice)
        item.part = part
        item.sent = 0
        if self.queue or not self.send_slice(item, SENDFILE_TURN_BYTES):
            if not self.closed:
                self.queue.append(item)
        return 0

    cdef bint send_slice(self, OutSlice item, Py_ssize_t budget) except *:
        """Whether the slice is sent to its end. A file that became shorter (truncated) ends the connection."""
        cdef Py_ssize_t wanted
        cdef ssize_t n
        if item.part.is_cut():
            self.fail("Fetch", "the segment was truncated before it was sent")
            return False
        while item.sent < item.part.size:
            if budget <= 0:
                return False
            wanted = min(item.part.size - item.sent, budget)
            n = self.transport.send_file(item.part.fd, item.part.position + item.sent, wanted)
            if n > 0:
                item.sent += n
                budget -= n
                if n < wanted:
                    # The socket is full, and another call would only return that: sending continues when the socket is writable,
                    # and then also finds a file that ended here.
                    return False
            elif n == 0:
                self.fail("Fetch", "the segment became shorter while it was sent")
                return False
            elif n == -EAGAIN:
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
                n = self.transport.send(PyBytes_AS_STRING(item), size, sent_items + 1 < len(self.queue))
                if n < 0:
                    if n != -EAGAIN:
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
            self.last_active_ms = coarse_ms(&self.clock.source)
        if not self.queue:
            self.loop.remove_writer(self.transport.fd)
            self.writing = False
            self.emptied()
        return 0

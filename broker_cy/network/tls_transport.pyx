"""A socket with TLS, as a transport; the .pxd has its invariants."""

from broker_cy.core.openssl cimport RECORD_BYTES_MAX
from broker_cy.network.transport cimport was_reset

cdef extern from "sys/socket.h" nogil:
    int setsockopt(int fd, int level, int name, const void* value, unsigned int size)
    int SOL_SOCKET, SO_RCVLOWAT

cdef extern from "unistd.h" nogil:
    int c_close "close"(int fd)


cdef class TlsTransport(Transport):
    """A session whose handshake is done, and its socket, which it owns."""

    def __init__(self, loop, TlsSession session not None, int fd):
        self.loop = loop
        self.session = session
        self.fd = fd

    def attach(self, on_input):
        """Call `on_input` for input that the loop does not report, such as the bytes behind the handshake."""
        self.on_input = on_input
        self.resumed()

    cdef ssize_t recv(self, void* into, size_t room) except? -1:
        cdef ssize_t n = self.session.recv(into, room)
        # At the end of the stream the caller may come back later; without data there may be records that are none.
        if self.session.has_input():
            self.schedule()
        return n

    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1:
        return self.session.send(data, size, more)

    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1:
        return self.session.send_file(fd, position, size)

    cdef int wake_at(self, int size) except -1:
        # The kernel counts ciphertext, which is at least as long; but the library may have taken a part of a record.
        cdef int wanted = max(1, size - RECORD_BYTES_MAX)
        setsockopt(self.fd, SOL_SOCKET, SO_RCVLOWAT, &wanted, sizeof(wanted))
        return 0

    cdef bint is_reset(self) noexcept:
        return was_reset(self.fd)

    cdef int resumed(self) except -1:
        if self.session.has_input():
            self.schedule()
        return 0

    cdef int schedule(self) except -1:
        if not self.is_scheduled and self.on_input is not None:
            self.is_scheduled = True
            self.loop.call_soon(self.more_input)
        return 0

    def more_input(self):
        self.is_scheduled = False
        if self.on_input is not None and self.session.has_input():
            self.on_input()

    cdef int close(self) except -1:
        self.on_input = None
        self.session.goodbye()
        c_close(self.fd)
        return 0

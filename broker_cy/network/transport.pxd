"""Bytes to and from one peer, below the connection: a socket, or a replacement for it (TLS, a simulated link).

No call waits. `recv`, `send` and `send_file` return the number of bytes, or a negative errno: -EAGAIN if the loop will report when
to try again, never -EINTR. `send` accepts at least one byte or returns an errno; the caller keeps no copy of accepted bytes.
"""

cdef class Transport:
    # The descriptor that the loop watches (add_reader, add_writer).
    cdef readonly int fd

    # 0 at the end of the stream: the peer sends nothing more.
    cdef ssize_t recv(self, void* into, size_t room) except? -1
    # `more`: other data follows immediately.
    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1
    # Bytes of the file `fd` from `position` on; 0 if the file ends before `position`.
    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1
    # Report input only when this much has arrived: a hint.
    cdef int wake_at(self, int size) except -1
    # Whether the peer has reset the connection, and no later call would say so.
    cdef bint is_reset(self) noexcept
    # The connection had stopped watching for input, and watches again.
    cdef int resumed(self) except -1
    # Called once, as the last call. Bytes that were sent still reach the peer.
    cdef int close(self) except -1

# As `Transport.is_reset`, for a socket.
cdef bint was_reset(int fd) noexcept

cdef class SocketTransport(Transport):
    pass

cdef class ObjectTransport(Transport):
    cdef object link

"""Bytes to and from one peer; the .pxd describes what each call does."""

from cpython.buffer cimport PyBUF_READ, PyBUF_WRITE
from libc.errno cimport EINTR, errno

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char* data, Py_ssize_t size, int flags)

cdef extern from "sys/socket.h" nogil:
    ssize_t c_recv "recv"(int fd, void* buf, size_t n, int flags)
    ssize_t c_send "send"(int fd, const void* buf, size_t n, int flags)
    int setsockopt(int fd, int level, int name, const void* value, unsigned int size)
    int getsockopt(int fd, int level, int name, void* value, unsigned int* size)
    int MSG_DONTWAIT, MSG_MORE, MSG_NOSIGNAL, SOL_SOCKET, SO_ERROR, SO_RCVLOWAT

cdef extern from "sys/sendfile.h" nogil:
    ssize_t c_sendfile "sendfile"(int out_fd, int in_fd, long* offset, size_t count)

cdef extern from "unistd.h" nogil:
    int c_close "close"(int fd)


cdef bint was_reset(int fd) noexcept:
    cdef int error = 0
    cdef unsigned int size = sizeof(error)
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) == 0 and error != 0


cdef class Transport:
    cdef ssize_t recv(self, void* into, size_t room) except? -1:
        raise NotImplementedError("a Transport without recv")

    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1:
        raise NotImplementedError("a Transport without send")

    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1:
        raise NotImplementedError("a Transport without send_file")

    cdef int wake_at(self, int size) except -1:
        return 0

    cdef bint is_reset(self) noexcept:
        return False

    cdef int resumed(self) except -1:
        return 0

    cdef int close(self) except -1:
        raise NotImplementedError("a Transport without close")

    def close_now(self):
        """For those who have it before a connection does."""
        self.close()


cdef class SocketTransport(Transport):
    """A connected socket, which it owns."""

    def __init__(self, int fd):
        self.fd = fd

    cdef ssize_t recv(self, void* into, size_t room) except? -1:
        cdef ssize_t n = c_recv(self.fd, into, room, MSG_DONTWAIT)
        while n < 0 and errno == EINTR:
            n = c_recv(self.fd, into, room, MSG_DONTWAIT)
        return n if n >= 0 else -errno

    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1:
        cdef int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (MSG_MORE if more else 0)
        cdef ssize_t n = c_send(self.fd, data, size, flags)
        while n < 0 and errno == EINTR:
            n = c_send(self.fd, data, size, flags)
        return n if n >= 0 else -errno

    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1:
        cdef long at = position
        cdef ssize_t n = c_sendfile(self.fd, fd, &at, size)
        while n < 0 and errno == EINTR:
            n = c_sendfile(self.fd, fd, &at, size)
        return n if n >= 0 else -errno

    cdef int wake_at(self, int size) except -1:
        # If it fails the socket is readable earlier, and that is all.
        setsockopt(self.fd, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof(size))
        return 0

    cdef bint is_reset(self) noexcept:
        return was_reset(self.fd)

    cdef int close(self) except -1:
        # An error is ignored: the caller cannot handle it, and the descriptor is closed anyway.
        c_close(self.fd)
        return 0


cdef class ObjectTransport(Transport):
    """A transport written in Python. `link` may not keep the memoryviews that it is given."""

    def __init__(self, link, int fd):
        self.link = link
        self.fd = fd

    cdef ssize_t recv(self, void* into, size_t room) except? -1:
        view = PyMemoryView_FromMemory(<char*>into, room, PyBUF_WRITE)
        try:
            return self.link.recv_into(view)
        finally:
            view.release()

    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1:
        view = PyMemoryView_FromMemory(<char*>data, size, PyBUF_READ)
        try:
            return self.link.send(view, more)
        finally:
            view.release()

    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1:
        return self.link.send_file(fd, position, size)

    cdef int close(self) except -1:
        self.link.close()
        return 0

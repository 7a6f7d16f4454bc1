"""TLS of one connection over a socket that does not block; every other module reaches OpenSSL through this one, which holds the
only copy of the library.

One thread at a time owns a session. `shake` may run in a worker, without the GIL; after it has returned SHAKEN, the thread of the
loop owns the session. No call waits.

An idle session has no buffers of its own. Ciphertext is received into a buffer that all sessions share. `carry` keeps the bytes
that the library does not take from it because the caller has no more room. `unsent` keeps the output that the socket does not
take: at most one call's output, because nothing is encrypted before it is sent.
"""

from libc.stdint cimport uint8_t

from broker_cy.core.libssl cimport SSL, SSL_CTX

cpdef enum:
    # Results of `shake`.
    SHAKEN = 1                          # the handshake is done
    WANTS_READ = 2                      # call it again when the socket is readable
    WANTS_WRITE = 3                     # ... or writable
    FAILED = 4                          # `failure` says why
    # Bytes that a peer may send in its handshake. A chain of certificates has a few thousand.
    SHAKE_BYTES_MAX = 131072

    RECORD_BYTES_MAX = 16640            # of ciphertext: 16,384 of data, and the overhead that TLS 1.2 and 1.3 allow
    # Encrypted and sent in one call: the plaintext and the ciphertext of it stay in the processor's cache.
    SEND_BYTES_MAX = 262144

# The library reads its input from a Wire, and writes its output to it.
cdef struct Wire:
    const uint8_t* input
    size_t left                         # of the input
    uint8_t* output
    size_t size                         # of the output
    size_t capacity
    bint may_grow                       # the output is on the heap, and of this wire alone
    int reads_left                      # that the library may do: two for each record of the peer

cdef class TlsContext:
    cdef SSL_CTX* context
    cdef readonly bint is_server

cdef class TlsSession:
    cdef SSL* ssl
    cdef int fd                         # not owned
    cdef TlsContext context
    cdef Wire wire
    cdef uint8_t* carry                 # the input that was not taken; on the heap
    cdef size_t carry_size
    cdef uint8_t* unsent                # on the heap
    cdef size_t unsent_at
    cdef size_t unsent_size
    # While `unsent` is not empty, one byte of the last plaintext is not reported as taken, although it is encrypted. So the caller
    # keeps that byte and calls again when the socket is writable; that call sends `unsent`.
    cdef bint owes
    cdef bint is_shaken
    cdef bint has_ended                 # the peer sends nothing more
    cdef readonly size_t shake_bytes    # received in the handshake
    cdef int failure_kind
    cdef int failure_errno
    cdef unsigned long failure_code     # of the library
    cdef long verify_result

    cdef int shake_once(self) noexcept nogil
    cdef int answer_shake(self) noexcept nogil
    cdef int fail_shake(self, int kind, int number) noexcept nogil
    cdef void drop_carry(self) noexcept nogil
    cdef bint keep_shaken(self) noexcept nogil
    cdef ssize_t recv(self, void* into, size_t room) except? -1
    cdef ssize_t send(self, const void* data, size_t size, bint more) except? -1
    cdef ssize_t send_file(self, int fd, long position, size_t size) except? -1
    cdef ssize_t send_chunks(self, const uint8_t* data, int fd, long position, size_t size, bint more) except? -1
    # Whether `recv` would return something without input from the socket.
    cdef bint has_input(self) noexcept
    cdef void begin_output(self) noexcept nogil
    cdef void end_output(self) noexcept nogil
    cdef void answer(self) noexcept nogil
    cdef int keep_rest(self) except -1
    cdef ssize_t flush(self) noexcept nogil
    cdef ssize_t put(self, const void* data, size_t size, bint more) except? -1
    cdef int goodbye(self) except -1

"""A socket with TLS, as a transport.

Invariants: while the peer's data is here and not in the socket (decrypted, or received and not decrypted), the loop does not
report it; so a call of `on_input` is scheduled then. What is sent is encrypted piece by piece, and a piece that the socket has not
taken holds back the next.
"""

from broker_cy.core.openssl cimport TlsSession
from broker_cy.server.connections.transport cimport Transport

cdef class TlsTransport(Transport):
    cdef readonly TlsSession session
    cdef object loop
    cdef object on_input                # None before `attach` and after `close`
    cdef bint is_scheduled

    cdef int schedule(self) except -1

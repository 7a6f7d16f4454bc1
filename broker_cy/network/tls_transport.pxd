"""A socket with TLS, as a transport.

Invariants: the loop does not report data of the peer that is already here and not in the socket (decrypted, or received and not
decrypted); so a call of `on_input` is scheduled for it. Output is encrypted piece by piece; the next piece waits until the socket
has taken the previous one.
"""

from broker_cy.core.openssl cimport TlsSession
from broker_cy.network.transport cimport Transport

cdef class TlsTransport(Transport):
    cdef readonly TlsSession session
    cdef object loop
    cdef object on_input                # None before `attach` and after `close`
    cdef bint is_scheduled

    cdef int schedule(self) except -1

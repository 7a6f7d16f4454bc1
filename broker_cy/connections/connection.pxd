from libc.stdint cimport int16_t, int64_t, uint8_t

from broker_cy.connections.gate cimport Gate
from broker_cy.connections.receiver cimport Receiver

cdef class Connection(Receiver):
    cdef Gate gate                  # requests that pass it reach their handler without a further check
    cdef object login               # login.Login; None on listeners without SASL
    # The counters when `activity` last looked at them.
    cdef int64_t seen_requests
    cdef int64_t seen_bytes_in
    cdef int64_t seen_bytes_out

    cdef bint is_for_login(self, int16_t key) except *
    cdef int to_login(self, const uint8_t* p, Py_ssize_t n) except -1

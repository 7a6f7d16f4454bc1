cimport cython
from libc.stdint cimport uint8_t

from broker_cy.wire.batch cimport BatchHeader


@cython.final
cdef class Batch:
    cdef BatchHeader header
    cdef readonly Py_ssize_t position       # of the batch in the buffer it was read from
    cdef const uint8_t* at                  # its first byte; valid while owner lives
    cdef object owner

    cdef object _decompressed(self, const uint8_t* at, Py_ssize_t n, object max_payload_bytes)

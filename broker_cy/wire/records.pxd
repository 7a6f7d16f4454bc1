cimport cython
from libc.stdint cimport int64_t, uint8_t

from broker_cy.wire.batch cimport BatchHeader


@cython.final
cdef class Record:
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp         # ms; -1: none
    cdef readonly bytes key                 # or None
    cdef readonly bytes value               # or None
    cdef readonly tuple headers             # of (str, bytes or None)


@cython.final
cdef class Batch:
    cdef BatchHeader header
    cdef readonly Py_ssize_t position       # of the batch in the buffer it was read from
    cdef const uint8_t* at                  # its first byte; valid while owner lives
    cdef object owner

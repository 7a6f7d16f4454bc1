"""The sending side of a connection's transport. Bounds: the queue grows only while answers that were due are emitted (answers.PENDING_MAX); file
slices hold no memory.
"""

from libc.stdint cimport int64_t

from broker_cy.core.clock cimport Clock
from broker_cy.core.writer cimport Writer
from broker_cy.network.transport cimport Transport
from broker_cy.storage.log cimport LogSlice

cdef enum:
    SENDFILE_TURN_BYTES = 2097152   # sent from files to one socket in one turn of the loop

cdef class OutSlice:
    """A file slice; the socket has taken its first `sent` bytes."""
    cdef LogSlice part
    cdef Py_ssize_t sent

cdef class Outbox:
    cdef Transport transport
    cdef readonly bint closed
    cdef readonly list queue        # bytes and OutSlice that the socket did not take yet
    cdef object loop
    cdef Clock clock
    cdef bint writing               # the loop watches for room
    cdef readonly int64_t last_active_ms
    cdef readonly int64_t bytes_out     # given to the socket or queued so far

    cdef int emptied(self) except -1
    cdef bint send_slice(self, OutSlice item, Py_ssize_t budget) except *
    cdef int write_queue(self) except -1
    cdef int push_bytes(self, Writer out, bint more) except -1
    cdef int push_slice(self, LogSlice part) except -1
    cdef int fail(self, str api, str reason) except -1
    cpdef int close(self) except -1

from broker_cy.wire.record cimport Record as Input
from broker_streams.record cimport Record


cdef class Spread:
    cdef public long long count
    cdef public long long total
    cdef public long long least
    cdef public long long most
    cdef forget(self)
    cdef int add(self, long long value) except -1


cdef class Moment:
    cdef public long long system_time_ms    # the host's clock at the last call of the task
    cdef readonly Spread lateness           # how far records were behind the stream time, in ms
    cdef public long long stream_time_ms    # -1 before the first record, as in Kafka
    cdef public object timestamp
    cdef public object headers
    cdef public Input input                 # None outside one
    cdef object topic                       # None outside an input record
    cdef object partition
    cdef long long offset


cdef class Due:
    cdef public long long due_ms


cdef class Forward:
    cdef int take(self, Record record) except -1


cdef class Node(Forward):
    cdef readonly object context
    cdef Forward children


cdef Forward as_forward(object call)

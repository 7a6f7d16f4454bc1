from broker_cy.wire.record cimport Record as Input
from broker_streams.kernel.formats cimport Format
from broker_streams.kernel.forward cimport Forward, Moment, Spread
from broker_streams.record cimport Record


cdef class RecordQueue:
    cdef readonly Spread latency
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly object node
    cdef readonly Record head
    cdef readonly Input head_input
    cdef readonly long long time_ms             # of the head
    cdef public long long partition_time_ms     # the largest timestamp so far
    cdef readonly long long consumed            # the offset of the last record that was processed; -1: none was
    cdef Forward forward
    cdef Format key
    cdef Format value
    cdef object extract
    cdef object refuse
    cdef object skip
    cdef object chunks                          # a deque of lists of Input, behind `current`
    cdef list current
    cdef Py_ssize_t at
    cdef Py_ssize_t count
    cdef Input next_input(self)
    cdef int advance(self) except -1
    cdef long long extracted(self, Input found, object key, object value) except? -2
    cdef int forget_head(self) except -1
    cdef int process_head(self, Moment moment) except -1

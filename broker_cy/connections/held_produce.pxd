"""A Produce request that waits: for a worker, for the schemas of its records, or for the transaction coordinator (KIP-890)."""

cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.connections.answers cimport AnswerQueue
from broker_cy.connections.buffers cimport RecvBuffer
from broker_cy.connections.produce_answer cimport ProduceReply
from broker_cy.connections.produce_append cimport Verdicts
from broker_cy.wire.produce cimport ProduceView


@cython.final
cdef class HeldProduce(Verdicts):
    cdef ProduceView view               # all requests share it
    cdef AnswerQueue connection
    cdef ProduceReply reply
    cdef RecvBuffer owner               # keeps `body` alive
    cdef const uint8_t* body
    cdef Py_ssize_t size
    cdef dict checks                    # as append_all takes them
    cdef set denied                     # as append_all takes them
    cdef list unfinished                # those that a worker has not done yet, the next one last
    cdef bint transactional
    cdef bint held                      # waited at least once
    cdef str transactional_id
    cdef bint adds                      # the coordinator adds partitions that it does not know yet
    cdef int64_t producer_id
    cdef int16_t epoch

    cdef int hold(self) except -1
    cdef int resume(self) except -1
    cdef int check(self, list unfinished) except -1
    cdef int wait_for_schemas(self, future) except -1
    cdef int checked(self) except -1
    cdef int verify(self) except -1
    cdef bint collect(self, dict batches) except *
    cdef int ask(self) except -1
    cdef int on_verified(self, future) except -1
    cdef int refuse(self, code, message) except -1
    cdef int finish(self) except -1

cimport cython
from libc.stdint cimport int16_t, int32_t

from broker_cy.core.writer cimport Writer
from broker_cy.replica.partition cimport AppendResult
from broker_cy.replica.replica cimport Fate
from broker_cy.connections.answers cimport Reply

cdef enum:
    INLINE_RESULTS = 4

cdef struct Result:
    int32_t index
    bint staged                     # its fate is decided by the write of this turn, or by what follows it
    AppendResult append


@cython.final
cdef class ProduceReply(Reply):
    """The answer of one Produce request, encoded when it leaves."""
    cdef int16_t version
    cdef int16_t acks
    cdef int32_t timeout_ms         # for acks=all: how long it waits for the other replicas
    cdef int32_t count
    cdef int32_t pending            # results whose fate waits for a sync
    cdef Result inline_results[INLINE_RESULTS]
    cdef Result* results            # inline_results, or a block of its own
    cdef list topics                # (name or id as received, number of its partitions)
    cdef list partitions            # Partition or None, one per result
    cdef dict details               # result position -> (message or None, [(record index, reason)])
    cdef dict leaders               # of current_leader; None until an error names one

    cdef int allot(self, int32_t count) except -1
    cdef int note(self, int32_t k, object message, list records) except -1
    cdef int fail_result(self, int32_t i, Fate fate) except -1
    cdef int emit_result(self, Writer out, int32_t i, bytes topic) except -1
    cdef int emit_leader(self, Writer out, int32_t index, bytes topic) except -1
    cdef int emit_details(self, Writer out, object detail) except -1
    cdef int emit_details_compact(self, Writer out, object detail) except -1

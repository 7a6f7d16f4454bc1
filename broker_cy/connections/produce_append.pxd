"""Checking and appending the batches of a Produce request, which a ProduceView holds."""

from libc.stdint cimport int16_t, int32_t

from broker_cy.replica.partition cimport Partition
from broker_cy.replica.verification cimport Verification
from broker_cy.connections.answers cimport AnswerQueue
from broker_cy.connections.buffers cimport RecvBuffer
from broker_cy.connections.produce_answer cimport ProduceReply
from broker_cy.wire.produce cimport ProduceView


cdef class Verdicts:
    cdef dict verifications             # Partition -> Verification
    cdef dict errors                    # Partition -> (code, message), of the verification
    cdef object refused                 # (code, message) for every partition of the request, or None

    cdef bint error_of(self, ProduceReply reply, Partition partition, int32_t k, int16_t* error) except *
    cdef Verification verification_of(self, Partition partition)

# Checks the batches whose cost is not bounded by their size, within the bound of this turn of the loop. Returns those that are left
# for a worker, in order, or None. All checks are in `checks`, by place in the request.
cdef list check_batches(ProduceView view, AnswerQueue connection, int16_t version, RecvBuffer owner, dict checks, set denied)
# Refuses checked batches whose records name schemas that their subjects do not have. Returns a future if that is not certain yet: call
# it again when it is done, with its result (are_current 0 or 1; -1: not asked yet). Then it returns None.
cdef object judge_schemas(dict checks, int are_current)
# Appends the batches one by one, and answers after the write. `checks` has the finished BatchChecks by place in the request, or is
# None; `verdicts` is None for a request that never waited, else its reply has its place already; `denied` has the places of topics
# that the client may not write, or is None.
cdef int append_all(ProduceView view, AnswerQueue connection, ProduceReply reply, RecvBuffer owner, dict checks, Verdicts verdicts,
                    set denied) except -1

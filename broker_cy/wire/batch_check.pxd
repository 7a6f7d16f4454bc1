"""The validation of a produced batch whose cost is not bounded by its size."""

from libc.stdint cimport int64_t, uint8_t

from broker_cy.wire.batch cimport BatchHeader, BatchVerdict, Inflation, ValidationRules

cdef class BatchCheck(Inflation):
    """The validation of one batch that is compressed, that is stored with another codec than it was sent with, or whose topic checks
    the schemas of records.
    """
    cdef object partition               # the Partition it is for
    cdef object owner                   # keeps `data` alive
    cdef uint8_t* data
    cdef Py_ssize_t size
    cdef int64_t now_ms
    cdef ValidationRules rules
    cdef object level                   # of the topic's compression.type; None: the codec's default
    cdef object topic_partition         # (topic, index), for messages
    cdef object schemas                 # the RecordSchemas of the topic; None: its records may name any schema, or none
    cdef int64_t spent                  # bytes that the last call of `run` counted against its bound
    # The outcome, once `run` has returned True.
    cdef BatchHeader header
    cdef BatchVerdict verdict
    cdef object refusal                 # Rejection; None if the batch is accepted
    cdef object uses                    # with `schemas`: the SchemaUses of keys and values, each may be None
    cdef bytes stored                   # the batch to store if verdict.rebuild; None if it exceeds max.message.bytes

    cdef bint run(self, int64_t bytes_max, bint in_worker) except *
    cdef bint finish(self, int64_t bytes_max) except *
    cdef object records(self)
    cdef bytes rebuild(self)

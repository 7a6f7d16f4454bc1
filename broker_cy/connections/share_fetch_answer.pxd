from libc.stdint cimport int16_t, int32_t

from broker_cy.connections.answers cimport AnswerQueue


cdef class ShareFetchAnswer:
    """The answer of one ShareFetch request, before it is encoded."""
    cdef public int16_t error_code
    cdef public object error_message            # str or None
    cdef public int32_t throttle_time_ms
    cdef public int32_t lock_ms
    cdef public list topics                     # (16 bytes of the topic id, [SharePartitionAnswer])
    cdef public dict leaders                    # node id -> (host, port, rack)
    cdef public bint from_disk                  # a worker read some of the records


cdef class SharePartitionAnswer:
    cdef public int32_t index
    cdef public int16_t error_code
    cdef public object error_message
    cdef public int16_t acknowledge_error_code
    cdef public object acknowledge_error_message
    cdef public int32_t leader_id
    cdef public int32_t leader_epoch
    cdef public list parts                      # of LogSlice, one after the other
    cdef public list acquired                   # (first offset, last offset, delivery count)

# Pieces of the whole frame, of versions 1 and 2: bytes, and LogSlice for records that are sent with sendfile.
cdef list share_fetch_frame(AnswerQueue connection, ShareFetchAnswer answer, int32_t correlation_id)

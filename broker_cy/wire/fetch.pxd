"""Fetch requests as a view over the received bytes, versions 4 to 18: nothing is copied."""

from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.wire.produce cimport TopicSpan

cdef struct FetchTarget:
    int32_t index
    int32_t current_leader_epoch    # -1 if the client did not send it
    int64_t fetch_offset
    int32_t last_fetched_epoch      # -1 if the client did not send it
    int64_t log_start_offset        # a follower's; -1 from consumers
    int32_t max_bytes

cdef class FetchView:
    """Filled by `parse`; valid as long as the parsed bytes. Reused for each request."""
    cdef int16_t version
    cdef int32_t replica_id         # -1 from consumers
    cdef int64_t replica_epoch      # a follower's broker epoch (KIP-903); -1 below version 15
    cdef bytes rack_id              # of a consumer (KIP-392), b"" if it has none
    cdef int32_t max_wait_ms
    cdef int32_t min_bytes
    cdef int32_t max_bytes
    cdef int8_t isolation_level     # 0 read_uncommitted, 1 read_committed
    cdef int32_t session_id
    cdef int32_t session_epoch
    cdef TopicSpan* topics
    cdef int32_t topic_count
    cdef int32_t topic_capacity
    cdef FetchTarget* partitions
    cdef int32_t partition_count
    cdef int32_t partition_capacity
    cdef TopicSpan* forgotten      # first and count refer to forgotten_partitions
    cdef int32_t forgotten_count
    cdef int32_t forgotten_capacity
    cdef int32_t* forgotten_partitions
    cdef int32_t forgotten_partition_count
    cdef int32_t forgotten_partition_capacity

    cdef int parse(self, Cursor cursor, int16_t version) except -1
    cdef int parse_topics(self, Cursor cursor, bint flexible) except -1
    cdef int parse_forgotten(self, Cursor cursor, bint flexible) except -1
    cdef int parse_tags(self, Cursor cursor) except -1

"""Fetch answers of version 12 and later, as a follower reads them: a view over the received bytes, nothing is copied."""

from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t

from broker_cy.core.cursor cimport Cursor
from broker_cy.wire.produce cimport TopicSpan

cdef struct FetchedPart:
    int32_t index
    int16_t error
    int64_t high_watermark
    int64_t log_start_offset
    int32_t diverging_epoch         # -1 if the logs do not diverge
    int64_t diverging_end_offset
    const uint8_t* records
    Py_ssize_t size                 # of the records; 0 also for null

cdef class FetchResponseView:
    """Filled by `parse`; valid as long as the parsed bytes. Reused for each answer."""
    cdef int16_t error
    cdef int32_t session_id
    cdef TopicSpan* topics
    cdef int32_t topic_count
    cdef int32_t topic_capacity
    cdef FetchedPart* partitions
    cdef int32_t partition_count
    cdef int32_t partition_capacity

    cdef int parse(self, Cursor cursor, int16_t version) except -1
    cdef int parse_partition(self, Cursor cursor, FetchedPart* part) except -1

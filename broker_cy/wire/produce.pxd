"""Produce requests as a view over the received bytes, versions 3 to 13: nothing is copied."""

from libc.stdint cimport int16_t, int32_t, uint8_t

from broker_cy.core.cursor cimport Cursor

cdef enum:
    FIRST_ID_VERSION = 13           # of Produce and of Fetch: topics are named by their ids (KIP-516)

# One topic of a Produce or Fetch request.
cdef struct TopicSpan:
    const uint8_t* name             # topic name up to version 12; from 13 on the 16 bytes of its id
    int32_t name_size
    int32_t first                   # its partitions are partitions[first:first + count] of the view
    int32_t count

cdef struct ProducePartition:
    int32_t index
    int32_t size                    # of the records; -1 if they are null
    const uint8_t* records

cdef class ProduceView:
    """Filled by `parse`; valid as long as the parsed bytes. Reused for each request."""
    cdef int16_t version
    cdef int16_t acks
    cdef int32_t timeout_ms
    cdef const uint8_t* transactional_id
    cdef int32_t transactional_id_size  # -1 if it is null
    cdef TopicSpan* topics
    cdef int32_t topic_count
    cdef int32_t topic_capacity
    cdef ProducePartition* partitions
    cdef int32_t partition_count
    cdef int32_t partition_capacity

    cdef int parse(self, Cursor cursor, int16_t version) except -1
    cdef int keep_last(self) except -1
    cdef int merge(self) except -1

cdef int skip_tags(Cursor cursor) except -1
cdef bytes topic_key(TopicSpan* topic, int16_t version)
cdef int read_key(Cursor cursor, TopicSpan* topic, int16_t version, bint flexible) except -1
cdef int32_t array_length(Cursor cursor, bint flexible, int element_bytes_min, bint nullable) except -2
cdef int32_t string_length(Cursor cursor, bint flexible) except -2
cdef void* grown(void* block, int32_t* capacity, int32_t needed, Py_ssize_t element_bytes) except NULL

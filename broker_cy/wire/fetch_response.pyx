"""Fetch answers of version 12 and later, as a follower reads them: a view over the received bytes, nothing is copied.

The layout is in the protocol table 01_Fetch. Fields that a follower does not use are skipped: aborted transactions, the preferred
replica, and all tagged fields but DivergingEpoch (KIP-595). The tests use the spec-driven codec as the oracle.
"""

from libc.stdint cimport int32_t, int64_t
from libc.stdlib cimport free

from broker_cy.wire.produce cimport array_length, grown, read_key, skip_tags

from broker_cy.core.errors import WireError

cdef enum:
    ABORTED_BYTES = 16              # of one aborted transaction, without its tagged fields
    PARTITION_BYTES_MIN = 37
    DIVERGING_EPOCH_TAG = 0


cdef class FetchResponseView:
    def __dealloc__(self):
        free(self.topics)
        free(self.partitions)

    cdef int parse(self, Cursor cursor, int16_t version) except -1:
        """Read one answer; raises WireError if it does not parse."""
        cdef int32_t topics, partitions, i, _k
        cdef TopicSpan* topic
        self.topic_count = self.partition_count = 0
        cursor.i32()                # throttle_time_ms
        self.error = cursor.i16()
        self.session_id = cursor.i32()
        topics = array_length(cursor, True, 3, False)
        if topics > self.topic_capacity:
            self.topics = <TopicSpan*>grown(self.topics, &self.topic_capacity, topics, sizeof(TopicSpan))
        for i in range(topics):
            topic = &self.topics[i]
            read_key(cursor, topic, version, True)
            partitions = array_length(cursor, True, PARTITION_BYTES_MIN, False)
            topic.first = self.partition_count
            topic.count = partitions
            if topic.first + partitions > self.partition_capacity:
                self.partitions = <FetchedPart*>grown(
                    self.partitions, &self.partition_capacity, topic.first + partitions, sizeof(FetchedPart))
            for _k in range(partitions):
                self.parse_partition(cursor, &self.partitions[self.partition_count])
                self.partition_count += 1
            skip_tags(cursor)
        skip_tags(cursor)
        if cursor.remaining():
            raise WireError(f"{cursor.remaining()} bytes follow the answer")
        self.topic_count = topics
        return 0

    cdef int parse_partition(self, Cursor cursor, FetchedPart* part) except -1:
        cdef int32_t aborted, _k
        cdef int64_t size, count, tag
        cdef Cursor field
        part.index = cursor.i32()
        part.error = cursor.i16()
        part.high_watermark = cursor.i64()
        cursor.i64()                # last_stable_offset
        part.log_start_offset = cursor.i64()
        aborted = array_length(cursor, True, ABORTED_BYTES + 1, True)
        for _k in range(aborted):
            cursor.take(ABORTED_BYTES)
            skip_tags(cursor)
        cursor.i32()                # preferred_read_replica
        size = <int64_t>cursor.uvarint() - 1
        part.size = max(<int64_t>0, size)
        part.records = cursor.take(part.size) if part.size else cursor.ptr
        part.diverging_epoch = -1
        part.diverging_end_offset = -1
        count = cursor.uvarint()
        while count > 0:
            tag = cursor.uvarint()
            size = cursor.uvarint()
            field = Cursor.over(cursor.take(size) if size else cursor.ptr, size, cursor)
            if tag == DIVERGING_EPOCH_TAG:
                part.diverging_epoch = field.i32()
                part.diverging_end_offset = field.i64()
            count -= 1
        return 0


def parse_fetch_response(bytes body, int16_t version):
    """The answer as plain Python, for tests: a dict of its fields."""
    cdef FetchResponseView view = FetchResponseView()
    cdef TopicSpan* topic
    cdef FetchedPart* part
    cdef int32_t i, k
    view.parse(Cursor(body), version)
    topics = []
    for i in range(view.topic_count):
        topic = &view.topics[i]
        parts = []
        for k in range(topic.first, topic.first + topic.count):
            part = &view.partitions[k]
            parts.append((part.index, part.error, part.high_watermark, part.log_start_offset, part.diverging_epoch,
                          part.diverging_end_offset, (<const char*>part.records)[:part.size]))
        topics.append(((<const char*>topic.name)[:topic.name_size], parts))
    return {"error_code": view.error, "session_id": view.session_id, "topics": topics}

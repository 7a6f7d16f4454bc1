"""Fetch requests as a view over the received bytes, versions 4 to 18: nothing is copied.

The layout is in the protocol table 01_Fetch. The only tagged field that is read is ReplicaState (version 15, KIP-903): the cluster
id, the replica directory and the high watermark are those of the metadata quorum. The tests use the spec-driven codec as the oracle.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int64_t
from libc.stdlib cimport free

from broker_cy.wire.produce cimport array_length, grown, read_key, skip_tags, string_length

from broker_cy.core.errors import WireError


cdef class FetchView:
    def __dealloc__(self):
        free(self.topics)
        free(self.partitions)
        free(self.forgotten)
        free(self.forgotten_partitions)

    cdef int parse(self, Cursor cursor, int16_t version) except -1:
        """Read one request body; raises WireError if it does not parse."""
        cdef bint flexible = version >= 12
        cdef int32_t n
        self.version = version
        self.topic_count = self.partition_count = 0
        self.forgotten_count = self.forgotten_partition_count = 0
        self.session_id = 0
        self.session_epoch = -1
        self.replica_id = -1 if version >= 15 else cursor.i32()
        self.replica_epoch = -1
        self.rack_id = b""
        self.max_wait_ms = cursor.i32()
        self.min_bytes = cursor.i32()
        self.max_bytes = cursor.i32()
        self.isolation_level = cursor.i8()
        if version >= 7:
            self.session_id = cursor.i32()
            self.session_epoch = cursor.i32()
        self.parse_topics(cursor, flexible)
        if version >= 7:
            self.parse_forgotten(cursor, flexible)
        if version >= 11:
            n = string_length(cursor, flexible)
            if n < 0:
                raise WireError("rack_id is null")
            if n > 0:
                self.rack_id = PyBytes_FromStringAndSize(<char*>cursor.take(n), n)
        if flexible:
            self.parse_tags(cursor)
        return 0

    cdef int parse_topics(self, Cursor cursor, bint flexible) except -1:
        cdef int32_t topics, partitions, i, _k
        cdef TopicSpan* topic
        cdef FetchTarget* part
        topics = array_length(cursor, flexible, 3, False)
        if topics > self.topic_capacity:
            self.topics = <TopicSpan*>grown(self.topics, &self.topic_capacity, topics, sizeof(TopicSpan))
        for i in range(topics):
            topic = &self.topics[i]
            read_key(cursor, topic, self.version, flexible)
            partitions = array_length(cursor, flexible, 16, False)
            topic.first = self.partition_count
            topic.count = partitions
            if self.partition_count + partitions > self.partition_capacity:
                self.partitions = <FetchTarget*>grown(
                    self.partitions, &self.partition_capacity, self.partition_count + partitions, sizeof(FetchTarget))
            for _k in range(partitions):
                part = &self.partitions[self.partition_count]
                part.index = cursor.i32()
                part.current_leader_epoch = cursor.i32() if self.version >= 9 else -1
                part.fetch_offset = cursor.i64()
                part.last_fetched_epoch = cursor.i32() if self.version >= 12 else -1
                part.log_start_offset = cursor.i64() if self.version >= 5 else -1
                part.max_bytes = cursor.i32()
                self.partition_count += 1
                if flexible:
                    skip_tags(cursor)
            if flexible:
                skip_tags(cursor)
        self.topic_count = topics
        return 0

    cdef int parse_forgotten(self, Cursor cursor, bint flexible) except -1:
        cdef int32_t topics, partitions, i, k
        cdef TopicSpan* topic
        topics = array_length(cursor, flexible, 3, False)
        if topics > self.forgotten_capacity:
            self.forgotten = <TopicSpan*>grown(self.forgotten, &self.forgotten_capacity, topics, sizeof(TopicSpan))
        for i in range(topics):
            topic = &self.forgotten[i]
            read_key(cursor, topic, self.version, flexible)
            partitions = array_length(cursor, flexible, 4, False)
            topic.first = self.forgotten_partition_count
            topic.count = partitions
            if topic.first + partitions > self.forgotten_partition_capacity:
                self.forgotten_partitions = <int32_t*>grown(
                    self.forgotten_partitions, &self.forgotten_partition_capacity, topic.first + partitions, sizeof(int32_t))
            for k in range(partitions):
                self.forgotten_partitions[topic.first + k] = cursor.i32()
            self.forgotten_partition_count += partitions
            if flexible:
                skip_tags(cursor)
        self.forgotten_count = topics
        return 0

    cdef int parse_tags(self, Cursor cursor) except -1:
        """The request's own tagged fields: tag 1 is ReplicaState {replica_id, replica_epoch}."""
        cdef int64_t count = cursor.uvarint(), tag, size
        cdef Cursor field
        while count > 0:
            tag = cursor.uvarint()
            size = cursor.uvarint()
            field = Cursor.over(cursor.take(size) if size else cursor.ptr, size, cursor)
            if tag == 1 and self.version >= 15:
                self.replica_id = field.i32()
                self.replica_epoch = field.i64()
            count -= 1
        return 0


def parse_fetch(bytes body, int16_t version):
    """The request as plain Python, for tests: a dict of its fields."""
    cdef FetchView view = FetchView()
    view.parse(Cursor(body), version)
    cdef int i, k
    cdef TopicSpan* topic
    cdef FetchTarget* part
    topics, forgotten = [], []
    for i in range(view.topic_count):
        topic = &view.topics[i]
        parts = []
        for k in range(topic.first, topic.first + topic.count):
            part = &view.partitions[k]
            parts.append((part.index, part.current_leader_epoch, part.fetch_offset, part.last_fetched_epoch,
                          part.log_start_offset, part.max_bytes))
        topics.append((topic.name[:topic.name_size], parts))
    for i in range(view.forgotten_count):
        topic = &view.forgotten[i]
        forgotten.append((topic.name[:topic.name_size],
                          [view.forgotten_partitions[k] for k in range(topic.first, topic.first + topic.count)]))
    return {
        "replica_id": view.replica_id, "max_wait_ms": view.max_wait_ms, "min_bytes": view.min_bytes,
        "max_bytes": view.max_bytes, "isolation_level": view.isolation_level, "session_id": view.session_id,
        "session_epoch": view.session_epoch, "topics": topics, "forgotten": forgotten,
    }

"""Produce requests as a view over the received bytes, versions 3 to 13: nothing is copied.

Layout (protocol table 00_Produce): transactional_id, acks, timeout_ms, topics[name | topic_id, partitions[index, records]];
from version 9 lengths are compact and every structure ends with tagged fields (KIP-482). The tests use the spec-driven
codec as the oracle.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memcpy

from broker_cy.core.errors import WireError
from broker_cy.core.text import java_text


cdef int skip_tags(Cursor cursor) except -1:
    """Skip the tagged fields of a structure in a Produce or Fetch request; this broker needs none of them."""
    cdef int64_t count = cursor.uvarint()
    while count > 0:
        cursor.uvarint()
        cursor.take(cursor.uvarint())
        count -= 1
    return 0


cdef int32_t array_length(Cursor cursor, bint flexible, int element_bytes_min, bint nullable) except -2:
    """The element count of an array, -1 for null. Raises WireError if the remaining bytes cannot contain that many."""
    cdef int64_t n
    if flexible:
        n = <int64_t>cursor.uvarint() - 1
    else:
        n = cursor.i32()
    if n < 0:
        if n == -1 and nullable:
            return -1
        raise WireError("an array is null" if n == -1 else f"an array has the negative length {n}")
    if n * element_bytes_min > cursor.remaining():
        raise WireError(
            f"an array of {n} elements of at least {element_bytes_min} bytes does not fit in the remaining {cursor.remaining()} bytes"
        )
    cursor.spend(n)
    return <int32_t>n


cdef int32_t string_length(Cursor cursor, bint flexible) except -2:
    """Length of a string, -1 for null."""
    cdef int64_t n
    if flexible:
        n = <int64_t>cursor.uvarint() - 1
    else:
        n = cursor.i16()
    if n < -1 or n > 32767:
        raise WireError(f"a string has length {n}; -1 (null) to 32767 are allowed")
    return <int32_t>n


cdef void* grown(void* block, int32_t* capacity, int32_t needed, Py_ssize_t element_bytes) except NULL:
    """`block` with room for `needed` elements; the caller has bounded `needed` by the bytes received."""
    cdef int32_t wanted = max(needed, 2 * capacity[0], 8)
    cdef void* moved = realloc(block, wanted * element_bytes)
    if moved == NULL:
        raise MemoryError(f"no memory for {wanted} elements of a request")
    capacity[0] = wanted
    return moved


cdef int read_key(Cursor cursor, TopicSpan* topic, int16_t version, bint flexible) except -1:
    """Read a topic's name or, from version 13 on, its id: Produce and Fetch changed in the same version (KIP-516)."""
    cdef int32_t n = 16 if version >= FIRST_ID_VERSION else string_length(cursor, flexible)
    if n < 0:
        raise WireError("a topic name is null")
    topic.name = cursor.take(n)
    topic.name_size = n
    return 0


cdef bytes topic_key(TopicSpan* topic, int16_t version):
    """A topic's name or id, as in PartitionTable and in responses. Raises WireError if the name is too long for that."""
    cdef bytes key = topic.name[:topic.name_size]
    cdef uint8_t bits = 0
    cdef int32_t i
    if version < FIRST_ID_VERSION:
        for i in range(topic.name_size):
            bits |= topic.name[i]
        if bits & 0x80:
            # No topic can have this name; Kafka's response contains the name as Kafka decoded it.
            return (<str>java_text(key)).encode()
    return key


cdef class ProduceView:
    def __dealloc__(self):
        free(self.topics)
        free(self.partitions)

    cdef int parse(self, Cursor cursor, int16_t version) except -1:
        """Read one request body; raises WireError if it does not parse."""
        cdef bint flexible = version >= 9
        cdef int32_t topics, partitions, n, i, _k
        cdef int64_t size
        cdef TopicSpan* topic
        cdef ProducePartition* part
        self.version = version
        self.topic_count = 0
        self.partition_count = 0
        n = string_length(cursor, flexible)
        self.transactional_id_size = n
        if n > 0:
            self.transactional_id = cursor.take(n)
        self.acks = cursor.i16()
        self.timeout_ms = cursor.i32()
        topics = array_length(cursor, flexible, 3, False)
        if topics > self.topic_capacity:
            self.topics = <TopicSpan*>grown(self.topics, &self.topic_capacity, topics, sizeof(TopicSpan))
        for i in range(topics):
            topic = &self.topics[i]
            read_key(cursor, topic, version, flexible)
            partitions = array_length(cursor, flexible, 5, False)
            topic.first = self.partition_count
            topic.count = partitions
            if self.partition_count + partitions > self.partition_capacity:
                self.partitions = <ProducePartition*>grown(
                    self.partitions, &self.partition_capacity, self.partition_count + partitions, sizeof(ProducePartition))
            for _k in range(partitions):
                part = &self.partitions[self.partition_count]
                part.index = cursor.i32()
                if flexible:
                    size = <int64_t>cursor.uvarint() - 1
                else:
                    size = cursor.i32()
                if size < -1:
                    raise WireError(f"a records field has length {size}; -1 (null) or more is allowed")
                part.size = <int32_t>size
                part.records = cursor.take(size) if size > 0 else cursor.ptr
                self.partition_count += 1
                if flexible:
                    skip_tags(cursor)
            if flexible:
                skip_tags(cursor)
        if flexible:
            skip_tags(cursor)
        self.topic_count = topics
        return 0

    cdef int keep_last(self) except -1:
        """As in Kafka, a topic that is named more than once counts once, and of a partition that is named more than once only the last
        records count. Hardly any request has either, so that this looks for them without changing anything first.
        """
        cdef int32_t i, k
        cdef TopicSpan* topic
        cdef bint is_sorted
        if self.partition_count < 2:
            return 0
        if self.topic_count > 1 and len({
            self.topics[i].name[:self.topics[i].name_size] for i in range(self.topic_count)
        }) < self.topic_count:
            return self.merge()
        for i in range(self.topic_count):
            topic = &self.topics[i]
            is_sorted = True
            for k in range(topic.first + 1, topic.first + topic.count):
                if self.partitions[k].index <= self.partitions[k - 1].index:
                    is_sorted = False
                    break
            if not is_sorted and len({
                self.partitions[k].index for k in range(topic.first, topic.first + topic.count)
            }) < topic.count:
                return self.merge()
        return 0

    cdef int merge(self) except -1:
        """Write topics and partitions again, each once, in the order of their first occurrence."""
        cdef dict places = {}           # name: {partition: place of its last records}
        cdef dict spans = {}            # name: place of the topic
        cdef dict parts
        cdef int32_t i, k, count = 0, topics = 0
        cdef TopicSpan* topic
        cdef ProducePartition* before = <ProducePartition*>malloc(self.partition_count * sizeof(ProducePartition))
        if before == NULL:
            raise MemoryError(f"no memory for {self.partition_count} partitions of a request")
        try:
            memcpy(before, self.partitions, self.partition_count * sizeof(ProducePartition))
            for i in range(self.topic_count):
                topic = &self.topics[i]
                key = topic.name[:topic.name_size]
                spans.setdefault(key, i)
                parts = places.setdefault(key, {})
                for k in range(topic.first, topic.first + topic.count):
                    parts[self.partitions[k].index] = k
            for key, parts in places.items():
                # The source is never before the destination, so no entry is overwritten before it is copied.
                self.topics[topics] = self.topics[<int32_t>spans[key]]
                topic = &self.topics[topics]
                topics += 1
                topic.first, topic.count = count, <int32_t>len(parts)
                for place in parts.values():
                    self.partitions[count] = before[<int32_t>place]
                    count += 1
        finally:
            free(before)
        self.topic_count, self.partition_count = topics, count
        return 0


def parse_produce(bytes body, int16_t version, bint once=False):
    """The request as plain Python, for tests: (acks, timeout_ms, transactional, [(name or id, [(index, records or None)])]), with
    `once` each partition as `keep_last` leaves it."""
    cdef ProduceView view = ProduceView()
    view.parse(Cursor(body), version)
    if once:
        view.keep_last()
    cdef int i, k
    topics = []
    for i in range(view.topic_count):
        parts = []
        for k in range(view.topics[i].first, view.topics[i].first + view.topics[i].count):
            size = view.partitions[k].size
            parts.append((view.partitions[k].index, None if size < 0 else view.partitions[k].records[:size]))
        topics.append((view.topics[i].name[:view.topics[i].name_size], parts))
    return view.acks, view.timeout_ms, view.transactional_id_size >= 0, topics

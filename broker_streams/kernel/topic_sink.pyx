"""The sink for one topic: serialization, and the partition of the key."""

from libc.stdint cimport uint8_t

from broker_cy.core.murmur2 cimport murmur2_of
from broker_streams.kernel.formats cimport Format, format_of
from broker_streams.kernel.forward cimport Node
from broker_streams.record cimport Record

from broker_streams.kernel.errors import Origin, StreamsError


cdef class Counts:
    """The numbers of partitions of topics, as `known` returns them; None: nothing is known.

    A sink asks once, and again after `look_again`.
    """

    cdef object known
    cdef long long looks

    def __init__(self, known):
        self.known = known
        self.looks = 1

    def look_again(self):
        self.looks += 1

    def __call__(self, topic):
        """Raises StreamsError: nothing tells how many partitions the topic has."""
        cdef long long count = 0 if self.known is None else self.known(topic)
        if count < 1:
            raise StreamsError(f"topic {topic} has no known partitions, so its partitioner cannot be called")
        return count


cdef class Placing:
    """Kafka's default partitioner, called as (topic, key); None: the producer chooses, by the same rule.

    The last `suffix_bytes` of a key do not count: all windows of a key are in one partition
    (WindowedStreamPartitioner). The producer does not know that, so such a call raises StreamsError without a count.
    """

    cdef Counts counts
    cdef Py_ssize_t suffix_bytes
    cdef object topic
    cdef long long looks
    cdef long long count

    def __init__(self, Counts counts not None, Py_ssize_t suffix_bytes):
        self.counts = counts
        self.suffix_bytes = suffix_bytes

    cdef object place(self, object topic, bytes key):
        cdef Py_ssize_t size
        if self.looks != self.counts.looks or self.topic is not topic:
            if self.suffix_bytes:
                self.count = self.counts(topic)
            else:
                self.count = 0 if self.counts.known is None else self.counts.known(topic)
            self.topic, self.looks = topic, self.counts.looks
        if self.count < 1:
            return None
        size = max(0, len(key) - self.suffix_bytes)
        return (murmur2_of(<const uint8_t*><const char*>key, size) & 0x7FFFFFFF) % self.count

    def __call__(self, topic, bytes key not None):
        return self.place(topic, key)


cdef class TopicSink(Node):
    """Writes to one topic. Partitions are those of Kafka's default partitioner."""

    cdef object node
    cdef object topic
    cdef Format key
    cdef Format value
    cdef list outputs
    cdef object failures
    cdef Placing placing

    def __init__(self, node, topic, key_serde, value_serde, collector, failures, Py_ssize_t suffix_bytes):
        self.node = node
        self.topic = topic
        self.key = format_of(key_serde)
        self.value = format_of(value_serde)
        self.outputs = collector.outputs
        self.failures = failures
        self.placing = collector.placing(suffix_bytes)

    cdef int take(self, Record record) except -1:
        headers = record.headers
        try:
            key = self.key.write(self.topic, record.key, headers)
        except Exception as error:
            self.failures.serialization(self.node, self.topic, Origin.KEY, record, error)
            return 0
        try:
            value = self.value.write(self.topic, record.value, headers)
        except Exception as error:
            self.failures.serialization(self.node, self.topic, Origin.VALUE, record, error)
            return 0
        partition = None if key is None else self.placing.place(self.topic, key)
        self.outputs.append((self.topic, partition, key, value, record.timestamp, headers))
        return 0

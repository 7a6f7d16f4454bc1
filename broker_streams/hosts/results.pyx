"""The records that tasks write until the next commit, as batches for the producer."""

from bisect import bisect_right

from broker_cy.wire.record cimport Record

from broker_cy.admin.produce import BATCH_BYTES_MAX, RECORDS_MAX

cdef enum:
    # Kept beside those of the producer, which measures records in the same way.
    RECORD_OVERHEAD_BYTES = 32
    HEADER_OVERHEAD_BYTES = 10

cdef Py_ssize_t _BATCH_BYTES_MAX = BATCH_BYTES_MAX
cdef Py_ssize_t _RECORDS_MAX = RECORDS_MAX


cdef inline object plain(object data):
    # Serdes of users may return other bytes-like objects.
    return data if data is None or type(data) is bytes else bytes(memoryview(data))


cdef class Place:
    """The batches of one partition. A batch is closed before it would be too large."""

    cdef list batches
    cdef list last
    cdef Py_ssize_t last_bytes
    cdef Py_ssize_t count
    cdef Py_ssize_t size_bytes
    # The first records of each origin, and these origins, for records that the cluster refuses.
    cdef list firsts
    cdef list origins
    cdef object origin

    def __cinit__(self):
        self.batches = []
        self.last_bytes = _BATCH_BYTES_MAX
        self.firsts = []
        self.origins = []

    cdef Py_ssize_t add(self, object key, object value, object timestamp, object headers, object origin) except -1:
        cdef Record record
        cdef Py_ssize_t size = RECORD_OVERHEAD_BYTES
        if origin is not self.origin:
            self.origin = origin
            self.firsts.append(self.count)
            self.origins.append(origin)
        if headers:
            record = Record(0, timestamp, key, value, headers)
            for name, content in record.headers:
                size += HEADER_OVERHEAD_BYTES + len(name) + (0 if content is None else len(content))
        else:
            record = Record.__new__(Record)
            record.offset = 0
            record.timestamp = timestamp
            record.key = plain(key)
            record.value = plain(value)
            record.headers = ()
        if record.key is not None:
            size += len(record.key)
        if record.value is not None:
            size += len(record.value)
        if self.last is None or self.last_bytes + size > _BATCH_BYTES_MAX or len(self.last) >= _RECORDS_MAX:
            self.last = []
            self.last_bytes = 0
            self.batches.append(self.last)
        self.last.append(record)
        self.last_bytes += size
        self.count += 1
        self.size_bytes += size
        return size


cdef class Results:
    cdef dict topics
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t size_bytes

    def __init__(self):
        self.topics = {}

    cdef Place place(self, object topic, object partition):
        cdef dict places = self.topics.get(topic)
        if places is None:
            places = self.topics[topic] = {}
        found = places.get(partition)
        if found is None:
            found = places[partition] = Place()
        return <Place>found

    def add(self, list outputs not None, origin=None):
        cdef tuple output
        for output in outputs:
            self.size_bytes += self.place(output[0], output[1]).add(output[2], output[3], output[4], output[5], origin)
        self.count += len(outputs)

    def add_changes(self, list changes not None, partition, origin=None):
        cdef tuple change
        for change in changes:
            self.size_bytes += self.place(change[0], partition).add(change[1], change[2], change[3], change[4], origin)
        self.count += len(changes)

    def origin_of(self, topic, partition, Py_ssize_t index):
        cdef Place place = self.topics[topic][partition]
        at = bisect_right(place.firsts, index)
        return place.origins[at - 1] if at else None

    def uncount(self, topic, partition, Py_ssize_t records, Py_ssize_t size_bytes):
        cdef Place place = self.topics[topic][partition]
        place.count -= records
        place.size_bytes -= size_bytes

    def __len__(self):
        return self.count

    def batches(self):
        return {
            (topic, partition): (<Place>place).batches
            for topic, places in self.topics.items()
            for partition, place in places.items()
        }

    def traffic(self):
        return {
            topic: (
                sum([(<Place>place).count for place in places.values()]),
                sum([(<Place>place).size_bytes for place in places.values()]),
            )
            for topic, places in self.topics.items()
        }

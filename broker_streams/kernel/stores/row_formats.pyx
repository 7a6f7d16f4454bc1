"""Keys and values of a store as bytes. The headers are those of the record that is processed now.

Each object is called with one value; None stays None, except for a key, which must not be None.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from broker_cy.core.cursor cimport load_u64
from broker_cy.core.writer cimport store_u64
from broker_streams.kernel.formats cimport format_of
from broker_streams.kernel.forward cimport Moment

from broker_streams.records import ValueAndTimestamp

cdef enum:
    TIMESTAMP_BYTES = 8

# Makes a named tuple from a tuple in half the time of its class.
cdef object new_tuple = tuple.__new__


cdef class RowFormat:
    def __init__(self, topic, serde, Moment task not None):
        self.topic = topic
        self.format = format_of(serde)
        self.task = task


cdef class KeyWriter(RowFormat):
    """Raises ValueError: the key is None, or is no bytes in its serde."""

    def __init__(self, store, topic, serde, Moment task not None):
        RowFormat.__init__(self, topic, serde, task)
        self.store = store

    cdef bytes write(self, object key):
        if key is None:
            raise ValueError(f"a key of store {self.store} is None; each row has a key")
        data = self.format.write(self.topic, key, self.task.headers)
        if data is None:
            raise ValueError(f"the key {key!r} of store {self.store} is serialized to None; each row has a key")
        return data if type(data) is bytes else bytes(data)

    def __call__(self, key):
        return self.write(key)


cdef class Reader(RowFormat):
    cdef object read(self, object data):
        return None if data is None else self.format.read(self.topic, data, self.task.headers)

    def __call__(self, data):
        return self.read(data)


cdef class Writer(RowFormat):
    cdef object write(self, object value):
        return None if value is None else self.format.write(self.topic, value, self.task.headers)

    def __call__(self, value):
        return self.write(value)


cdef class TimestampedReader(RowFormat):
    """Values as ValueAndTimestamp: the timestamp as int64, then the value (KIP-258)."""

    cdef object read(self, object data):
        if data is None:
            return None
        value = self.format.read(self.topic, data[TIMESTAMP_BYTES:], self.task.headers)
        if value is None:
            return None
        return new_tuple(ValueAndTimestamp, (value, timestamp_of(data)))

    def __call__(self, data):
        return self.read(data)


cdef class TimestampedWriter(RowFormat):
    cdef object write(self, object value, long long timestamp):
        cdef bytes made
        cdef Py_ssize_t size
        data = self.format.write(self.topic, value, self.task.headers)
        if data is None:
            return None
        if type(data) is not bytes:
            data = bytes(data)
        size = PyBytes_GET_SIZE(data)
        made = PyBytes_FromStringAndSize(NULL, TIMESTAMP_BYTES + size)
        store_u64(<uint8_t*>PyBytes_AS_STRING(made), <uint64_t>timestamp)
        memcpy(PyBytes_AS_STRING(made) + TIMESTAMP_BYTES, PyBytes_AS_STRING(data), <size_t>size)
        return made

    def __call__(self, value):
        if value is None or value[0] is None:
            return None
        return self.write(value[0], value[1])


cdef int64_t timestamp_of(bytes data) except? -1:
    if PyBytes_GET_SIZE(data) < TIMESTAMP_BYTES:
        raise ValueError(f"a row has {len(data)} bytes; a timestamp alone has {TIMESTAMP_BYTES}")
    return <int64_t>load_u64(<const uint8_t*>PyBytes_AS_STRING(data))

"""The formats of the most frequent serdes in C: STRING, LONG and BYTES of broker_streams/serdes/primitives.py.

Values that are not exactly of the format's type, and bytes that it cannot hold, go to the serde, which converts them or
says what is wrong. All other serdes are called for each value.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8String, PyUnicode_DecodeUTF8
from libc.stdint cimport int64_t, uint8_t, uint64_t

from broker_cy.core.cursor cimport load_u64
from broker_cy.core.writer cimport store_u64

from broker_streams.serdes.primitives import LONG, REPLACED, BytesSerde, IntegerSerde, StringSerde

cdef enum:
    OTHER = 0
    AS_STRING = 1
    AS_LONG = 2
    AS_BYTES = 3
    LONG_BYTES = 8

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object value, int* overflow) except? -1
    bint PyLong_CheckExact(object value)

cdef bytes _REPLACED = REPLACED.encode()


cdef class Format:
    """One serde."""

    cdef object write(self, object topic, object value, object headers):
        cdef int overflow = 0
        cdef int64_t number
        cdef bytes data
        if self.kind == AS_STRING:
            if value is None:
                return None
            if type(value) is str:
                try:
                    return PyUnicode_AsUTF8String(value)
                except UnicodeEncodeError:
                    pass
        elif self.kind == AS_LONG:
            if PyLong_CheckExact(value):
                number = PyLong_AsLongLongAndOverflow(value, &overflow)
                if overflow == 0:
                    data = PyBytes_FromStringAndSize(NULL, LONG_BYTES)
                    store_u64(<uint8_t*>PyBytes_AS_STRING(data), <uint64_t>number)
                    return data
        elif self.kind == AS_BYTES:
            if value is None or type(value) is bytes:
                return value
        return self.serializer(topic, value, headers)

    cdef object read(self, object topic, object data, object headers):
        if data is None and self.kind != OTHER:
            return None
        if type(data) is bytes:
            if self.kind == AS_STRING:
                return PyUnicode_DecodeUTF8(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data), _REPLACED)
            if self.kind == AS_LONG and PyBytes_GET_SIZE(data) == LONG_BYTES:
                return <int64_t>load_u64(<const uint8_t*>PyBytes_AS_STRING(data))
            if self.kind == AS_BYTES:
                return data
        return self.deserializer(topic, data, headers)


cdef Format format_of(object serde):
    cdef Format made = Format.__new__(Format)
    made.serializer = serde.serialize
    made.deserializer = serde.deserialize
    # Subclasses may do something else.
    if type(serde) is StringSerde:
        made.kind = AS_STRING
    elif type(serde) is IntegerSerde and serde.name == LONG.name:
        made.kind = AS_LONG
    elif type(serde) is BytesSerde:
        made.kind = AS_BYTES
    return made


def write(serde, topic, value, headers):
    """The bytes of a value, as a sink writes it."""
    return format_of(serde).write(topic, value, headers)


def read(serde, topic, data, headers):
    """The value of bytes, as a source reads it."""
    return format_of(serde).read(topic, data, headers)

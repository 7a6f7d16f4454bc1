from broker_streams.kernel.formats cimport Format
from broker_streams.kernel.forward cimport Moment


cdef class RowFormat:
    cdef object topic
    cdef Format format
    cdef Moment task


cdef class KeyWriter(RowFormat):
    cdef object store
    cdef bytes write(self, object key)


cdef class Reader(RowFormat):
    cdef object read(self, object data)


cdef class Writer(RowFormat):
    cdef object write(self, object value)


cdef class TimestampedReader(RowFormat):
    cdef object read(self, object data)


cdef class TimestampedWriter(RowFormat):
    cdef object write(self, object value, long long timestamp)

"""Aggregations without windows, record by record.

The rest of such a processor is Python (aggregate.py): stores whose rows are not updated here.
"""

from broker_streams.kernel.forward cimport Node
from broker_streams.kernel.stores.key_rows cimport KeyRows
from broker_streams.kernel.stores.row_formats cimport KeyWriter, TimestampedReader, TimestampedWriter
from broker_streams.record cimport Record


cdef class KeyFold(Node):
    """`rest` is an Aggregate."""

    cdef object rest
    cdef object initial
    cdef object add
    cdef object get
    cdef object put
    cdef bint counts
    cdef KeyWriter key
    cdef TimestampedReader reader
    cdef TimestampedWriter writer
    cdef KeyRows rows

    def __init__(self, rest):
        self.rest = rest

    def init(self, context):
        """Raises LookupError: the store is not connected to this processor."""
        Node.init(self, context)
        rest = self.rest
        rest.init(context)
        self.initial, self.add, self.counts, self.get, self.put = rest.initial, rest.add, rest.counts, rest.get, rest.put
        if rest.direct is not None:
            self.key, self.reader, self.writer, self.rows = rest.direct

    cdef int take(self, Record record) except -1:
        cdef long long timestamp
        cdef bytes key = None
        if record.key is None or record.value is None:
            self.context.drop()
            return 0
        timestamp = record.timestamp
        if self.rows is not None:
            key = self.key.write(record.key)
            row = self.reader.read(self.rows.row(key))
        else:
            row = self.get(record.key)
        if row is None:
            old = self.initial()
        else:
            old = row[0]
            if row[1] > timestamp:
                timestamp = row[1]
        new = old + 1 if self.counts else self.add(record.key, record.value, old)
        if self.rows is not None:
            self.rows.keep(key, None if new is None else self.writer.write(new, timestamp))
        else:
            self.put(record, new, old, timestamp)
        return 0

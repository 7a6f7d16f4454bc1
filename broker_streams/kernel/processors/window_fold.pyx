"""Aggregations in tumbling, hopping and unlimited windows, record by record.

The rest of such a processor is Python (window_aggregate.py): results of windows that close, and what the store shows.
"""

from broker_streams.kernel.forward cimport Forward, Node, as_forward
from broker_streams.kernel.stores.row_formats cimport KeyWriter, TimestampedReader, TimestampedWriter
from broker_streams.kernel.stores.window_rows cimport WindowRows
from broker_streams.record cimport Record, new_record

from broker_streams.records import Change, Window, Windowed

cdef long long MAX_MS = 0x7FFFFFFFFFFFFFFF


cdef class WindowFold(Node):
    """`rest` is a WindowAggregate."""

    cdef object rest
    cdef object initial
    cdef object add
    cdef object starts_of
    cdef object end_of
    cdef object fetch
    cdef object put
    cdef Forward forward
    cdef long long size_ms
    cdef long long grace_ms
    cdef long long stream_time_ms
    cdef bint tumbles
    cdef bint counts
    cdef bint updates
    cdef bint send_old
    cdef bint emits_closed
    cdef KeyWriter key
    cdef TimestampedReader reader
    cdef TimestampedWriter writer
    cdef WindowRows rows

    def __init__(self, rest):
        self.rest = rest

    def init(self, context):
        """Raises LookupError: the store is not connected to this processor."""
        Node.init(self, context)
        rest = self.rest
        rest.init(context)
        self.initial, self.add, self.counts = rest.initial, rest.add, rest.counts
        self.starts_of, self.end_of, self.tumbles = rest.windows.starts_of, rest.windows.end_of, rest.tumbles
        self.size_ms, self.grace_ms = rest.windows.size_ms, rest.windows.grace_ms
        self.updates, self.send_old, self.emits_closed = rest.updates, rest.send_old, rest.emits_closed
        self.fetch, self.put, self.forward = rest.fetch, rest.put, as_forward(rest.forward)
        self.stream_time_ms = -1
        if rest.direct is not None:
            self.key, self.reader, self.writer, self.rows = rest.direct

    cdef int take(self, Record record) except -1:
        cdef long long time_ms, close_ms, start_ms, end_ms
        if record.key is None:
            self.context.drop()
            return 0
        time_ms = record.timestamp
        if time_ms > self.stream_time_ms:
            self.stream_time_ms = time_ms
        close_ms = self.stream_time_ms - self.grace_ms
        if self.tumbles:
            start_ms = time_ms - time_ms % self.size_ms
            end_ms = start_ms + self.size_ms if start_ms <= MAX_MS - self.size_ms else MAX_MS
            self.update(record, time_ms, start_ms, end_ms, close_ms)
        else:
            for start in self.starts_of(time_ms):
                self.update(record, time_ms, start, min(self.end_of(start), MAX_MS), close_ms)
        if self.emits_closed:
            self.rest.emit_closed(record, close_ms)
        return 0

    cdef int update(
        self, Record record, long long time_ms, long long start_ms, long long end_ms, long long close_ms
    ) except -1:
        cdef long long timestamp = time_ms
        cdef bytes key = None
        cdef bytes cache_key = None
        if end_ms <= close_ms:
            self.context.drop()
            return 0
        if self.rows is not None:
            key = self.key.write(record.key)
            cache_key = self.rows.cache_key(key, start_ms)
            row = self.reader.read(self.rows.row(key, cache_key, start_ms))
        else:
            row = self.fetch(record.key, start_ms)
        if row is None:
            old = self.initial()
        else:
            old = row[0]
            if row[1] > timestamp:
                timestamp = row[1]
        new = old + 1 if self.counts else self.add(record.key, record.value, old)
        if self.rows is not None:
            self.rows.keep(cache_key, None if new is None else self.writer.write(new, timestamp), start_ms)
        else:
            self.put(record.key, (new, timestamp), start_ms)
        if self.updates:
            change = Change(new, old if self.send_old else None)
            windowed = Windowed(record.key, Window(start_ms, end_ms))
            self.forward.take(new_record(windowed, change, timestamp, record.headers))
        return 0

"""The record between two processors. A task makes several of them for each input, so they are made in C."""

cimport cython


@cython.freelist(64)
cdef class Record:
    """A record between two processors (KIP-478). It does not change: processors pass on another one."""

    def __init__(self, key, value, timestamp, headers=()):
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.headers = headers

    def with_key(self, key):
        return new_record(key, self.value, self.timestamp, self.headers)

    def with_value(self, value):
        return new_record(self.key, value, self.timestamp, self.headers)

    def with_timestamp(self, timestamp):
        return new_record(self.key, self.value, timestamp, self.headers)

    def with_headers(self, headers):
        return new_record(self.key, self.value, self.timestamp, headers)

    def __reduce__(self):
        return type(self), (self.key, self.value, self.timestamp, self.headers)

    def __eq__(self, other):
        if not isinstance(other, Record):
            return NotImplemented
        cdef Record that = other
        return (
            self.key == that.key and self.value == that.value and self.timestamp == that.timestamp
            and self.headers == that.headers
        )

    def __repr__(self):
        return f"Record({self.key!r}, {self.value!r}, {self.timestamp}, {self.headers!r})"

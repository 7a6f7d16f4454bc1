"""Records that wait in a buffer, as bytes (BufferValue, ContextualRecord, ProcessorRecordContext).

Layout, big-endian; `array` is a size int32 and the bytes, with the size -1 for None:

    context    timestamp int64, offset int64, topic array, partition int32, count of headers int32, then for each
               header: name array, value array
    waiting    context, prior array, old array (size -2: the same as prior), new array

A record of a changelog is followed by the time in the buffer as int64. `prior` is the value that the table had before
the first change that waits.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from broker_streams.kernel.processor import TaskState
from broker_streams.records import Headers, RecordMetadata

_LONG: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_BEGIN: Final = struct.Struct(">qqi")
_NONE: Final = _INT.pack(-1)
SAME_AS_PRIOR: Final = -2
_SAME: Final = _INT.pack(SAME_AS_PRIOR)


class RecordContext(NamedTuple):
    """The input record that caused a record. Outside an input record, topic is empty, and partition and offset -1."""

    timestamp: int
    offset: int
    partition: int
    topic: str
    headers: Headers

    @property
    def metadata(self) -> RecordMetadata | None:
        return RecordMetadata(self.topic, self.partition, self.offset) if self.partition >= 0 else None

    @property
    def size_bytes(self) -> int:
        """Kafka's estimate: UTF-16 units of names, the bytes of values, and 20 for the numbers."""
        size = 20 + len(self.topic)
        for name, value in self.headers:
            size += len(name.encode("utf-16-le")) // 2 + len(value or b"")
        return size

    def data(self) -> bytes:
        topic = self.topic.encode()
        parts = [_BEGIN.pack(self.timestamp, self.offset, len(topic)), topic]
        parts.append(_INT.pack(self.partition) + _INT.pack(len(self.headers)))
        for name, value in self.headers:
            parts += (array(name.encode()), array(value))
        return b"".join(parts)


def context_of(task: TaskState) -> RecordContext:
    """The context of the record that is passed on now."""
    metadata = task.metadata
    if metadata is None:
        return RecordContext(task.timestamp, -1, -1, "", task.headers)
    return RecordContext(task.timestamp, metadata.offset, metadata.partition, metadata.topic, task.headers)


def array(value: bytes | None) -> bytes:
    return _NONE if value is None else _INT.pack(len(value)) + value


class Reader:
    """Reads values one after the other. Raises ValueError: the bytes end too early."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def _take(self, size: int) -> bytes:
        at = self._at
        self._at = at + size
        if size < 0 or self._at > len(self._data):
            raise ValueError(f"a value of {size} bytes begins at {at}, but the record ends at {len(self._data)}")
        return self._data[at : self._at]

    def int64(self) -> int:
        value: int = _LONG.unpack(self._take(8))[0]
        return value

    def int32(self) -> int:
        value: int = _INT.unpack(self._take(4))[0]
        return value

    def sized(self, size: int) -> bytes | None:
        return None if size == -1 else self._take(size)

    def array(self) -> bytes | None:
        return self.sized(self.int32())

    def text(self) -> str:
        """Raises ValueError: a name is None, or no UTF-8."""
        value = self.array()
        if value is None:
            raise ValueError("a name is missing")
        return value.decode()

    def context(self) -> RecordContext:
        timestamp, offset = self.int64(), self.int64()
        topic, partition = self.text(), self.int32()
        headers = tuple((self.text(), self.array()) for _ in range(self.int32()))
        return RecordContext(timestamp, offset, partition, topic, headers)

    def rest(self) -> bytes:
        return self._data[self._at :]


class Waiting(NamedTuple):
    """A change that waits."""

    prior: bytes | None
    old: bytes | None
    new: bytes | None
    context: RecordContext

    @property
    def size_bytes(self) -> int:
        """Kafka's estimate; an old value that is the prior one counts once."""
        old = 0 if self.old is None or self.old == self.prior else len(self.old)
        return len(self.prior or b"") + old + len(self.new or b"") + self.context.size_bytes

    def data(self) -> bytes:
        old = _SAME if self.old is not None and self.old == self.prior else array(self.old)
        return b"".join((self.context.data(), array(self.prior), old, array(self.new)))


def read_waiting(reader: Reader) -> Waiting:
    context = reader.context()
    prior = reader.array()
    size = reader.int32()
    old = prior if size == SAME_AS_PRIOR else reader.sized(size)
    return Waiting(prior, old, reader.array(), context)


def read_changes(data: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Old and new value of a change as Kafka Streams before 2.4 wrote it. Raises ValueError: the change is missing."""
    if data is None:
        raise ValueError("a record of the buffer has no change")
    reader = Reader(data)
    return reader.array(), reader.array()

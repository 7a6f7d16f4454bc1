"""Offset syncs: pairs of offsets at which a partition of the source and its copy have the same record.

key      topic STRING, partition INT32           of the source
value    source offset INT64, target offset INT64
header   `brokercy.count` INT64, only in records of this program, and only if it is not 1

Consumers of MirrorMaker 2 ignore the header. The topic is compacted: of each partition, the last record remains.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_cy.core.writer import Writer
from broker_mirror.formats.fields import DamagedRecord, RecordReader, write_string

COUNT_HEADER: Final = "brokercy.count"


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """The record at `source_offset` has the offset `target_offset` in the target. So have the `count - 1` records
    before it, each at the offset that is one smaller on both sides.
    """

    topic: str
    partition: int
    source_offset: int
    target_offset: int
    count: int = 1

    def key(self) -> bytes:
        writer = Writer()
        write_string(writer, "topic", self.topic)
        writer.write_i32(self.partition)
        return writer.getvalue()

    def value(self) -> bytes:
        writer = Writer()
        writer.write_i64(self.source_offset)
        writer.write_i64(self.target_offset)
        return writer.getvalue()

    def headers(self) -> tuple[tuple[str, bytes], ...]:
        if self.count == 1:
            return ()
        writer = Writer()
        writer.write_i64(self.count)
        return ((COUNT_HEADER, writer.getvalue()),)


def decode(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] = ()) -> OffsetSync:
    """Return the offset sync of a record. Raises DamagedRecord."""
    named = RecordReader("the key of an offset sync", key)
    topic, partition = named.string("topic"), named.int32("partition")
    offsets = RecordReader("the value of an offset sync", value)
    source, target = offsets.int64("source offset"), offsets.int64("target offset")
    count = 1
    for name, data in headers:
        if name == COUNT_HEADER:
            count = RecordReader(f"the header {COUNT_HEADER} of an offset sync", data).int64("count")
    if not 1 <= count <= min(source, target) + 1 and count != 1:
        raise DamagedRecord(f"the header {COUNT_HEADER} of an offset sync has {count} for the pair {source}, {target}")
    return OffsetSync(topic, partition, source, target, count)

"""Checkpoints: committed offsets of groups of the source, as offsets of the target.

key      group STRING, topic STRING, partition INT32      topic and partition of the target
value    version INT16 (0), source offset INT64, target offset INT64, metadata STRING
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_cy.core.writer import Writer
from broker_mirror.formats.fields import VERSION, RecordReader, write_string


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`metadata` is the text that the group has committed with the offset."""

    group: str
    topic: str
    partition: int
    source_offset: int
    target_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        writer = Writer()
        write_string(writer, "group", self.group)
        write_string(writer, "topic", self.topic)
        writer.write_i32(self.partition)
        return writer.getvalue()

    def value(self) -> bytes:
        """Raises ValueError if the metadata has more than 32,767 bytes."""
        writer = Writer()
        writer.write_i16(VERSION)
        writer.write_i64(self.source_offset)
        writer.write_i64(self.target_offset)
        write_string(writer, "metadata", self.metadata)
        return writer.getvalue()


def decode(key: bytes | None, value: bytes | None) -> Checkpoint:
    """Return the checkpoint of a record. Raises DamagedRecord."""
    named = RecordReader("the key of a checkpoint", key)
    group, topic, partition = named.string("group"), named.string("topic"), named.int32("partition")
    found = RecordReader("the value of a checkpoint", value)
    found.version()
    source, target = found.int64("source offset"), found.int64("target offset")
    return Checkpoint(group, topic, partition, source, target, found.string("metadata"))

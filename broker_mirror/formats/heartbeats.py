"""Heartbeats: they show that a flow runs, and between which clusters.

key      alias of the source STRING, alias of the target STRING
value    version INT16 (0), time in ms INT64
"""

from __future__ import annotations

from dataclasses import dataclass

from broker_cy.core.writer import Writer
from broker_mirror.formats.fields import VERSION, RecordReader, write_string


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat in the topic of the target; `time_ms` is the wall clock of the program that wrote it."""

    source: str
    target: str
    time_ms: int

    def key(self) -> bytes:
        writer = Writer()
        write_string(writer, "source alias", self.source)
        write_string(writer, "target alias", self.target)
        return writer.getvalue()

    def value(self) -> bytes:
        writer = Writer()
        writer.write_i16(VERSION)
        writer.write_i64(self.time_ms)
        return writer.getvalue()


def decode(key: bytes | None, value: bytes | None) -> Heartbeat:
    """Return the heartbeat of a record. Raises DamagedRecord."""
    named = RecordReader("the key of a heartbeat", key)
    source, target = named.string("source alias"), named.string("target alias")
    found = RecordReader("the value of a heartbeat", value)
    found.version()
    return Heartbeat(source, target, found.int64("time"))

"""The topics a broker writes itself: what happened (`__cluster_events`), and a sample of its metrics each second
(`__broker_metrics`). docs/events.md has their fields. Apache Kafka has neither.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from broker_cy.admin.errors import AdminError
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import RecordCalls, Span, Start
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics import events, sample
from broker_cy.metrics.events import Stamped
from broker_cy.metrics.sample import Sample
from broker_cy.wire.records import Record

EVENTS_TOPIC = "__cluster_events"
METRICS_TOPIC = "__broker_metrics"
_SWITCHES = {
    EVENTS_TOPIC: "brokercy.events.enable=false",
    METRICS_TOPIC: "brokercy.metrics.sample.interval.ms=0",
}
# What is decoded in one turn of the loop, some 5 ms: a commit event of 1,000 partitions has 120 KB.
DECODED_BYTES_A_TURN = 64 << 10
# One range that is read at once, and no more than this of it is kept.
RANGE_BYTES_MAX = 8 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A record: `item` is None where it is of a type or version that this code does not know; `value` is its bytes."""

    offset: int
    item: T | None
    value: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The record as it stands there, with what this code does not know."""
        found = json.loads(self.value)
        assert isinstance(found, dict)
        return found


class OwnTopic(Generic[T]):
    """Reads one of them. A record that is none of theirs at all is passed over, and counted in `unreadable`."""

    def __init__(self, records: RecordCalls, topic: str, decode: Callable[[bytes], T | None]) -> None:
        self._records = records
        self._decode = decode
        self.topic = topic
        self.partition = TopicPartition(topic, 0)
        self.unreadable = 0

    async def span(self, start: Start) -> Span:
        """Where to read from, and the end. AdminError (UNKNOWN_TOPIC_OR_PARTITION) where the cluster has none."""
        try:
            await self._records.partitions(self.topic)
            return (await self._records.spans([self.partition], start))[self.partition]
        except AdminError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                reason = f"broker-cy writes it, unless {_SWITCHES[self.topic]}; Apache Kafka has none"
                raise AdminError(error.failure, reason, code=error.code, what=f"topic {self.topic}") from None
            raise

    async def read(self, start: int, end: int | None = None) -> AsyncIterator[list[Entry[T]]]:
        """Entries from an offset on, the oldest first; up to `end`, or, without, as they are written."""
        async with self._records.reader(
            {self.partition: start}, ends=None if end is None else {self.partition: end}
        ) as reader:
            async for chunk in reader:
                for records in _turns(chunk.records):
                    yield self._entries(records)
                    await asyncio.sleep(0)

    async def read_range(self, start: int, end: int, *, bytes_max: int = RANGE_BYTES_MAX) -> list[Entry[T]] | None:
        """All of a range; None where it has more than `bytes_max`, as a part of it would not be its newest."""
        found: list[Entry[T]] = []
        size = 0
        if start < end:
            async for entries in self.read(start, end):
                found += entries
                size += sum(len(entry.value) for entry in entries)
                if size > bytes_max:
                    return None
        return found

    def _entries(self, records: Iterable[Record]) -> list[Entry[T]]:
        found = []
        for record in records:
            value = record.value or b""
            try:
                found.append(Entry(record.offset, self._decode(value), value))
            except ValueError:
                self.unreadable += 1
        return found


def _turns(records: list[Record]) -> Iterator[list[Record]]:
    """`records` in pieces, each of what one turn of the loop decodes."""
    piece: list[Record] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.value or b"")
        if size >= DECODED_BYTES_A_TURN:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def event_topic(records: RecordCalls) -> OwnTopic[Stamped]:
    """`client.events`."""
    return OwnTopic(records, EVENTS_TOPIC, events.decode)


def sample_topic(records: RecordCalls) -> OwnTopic[Sample]:
    """`client.samples`."""
    return OwnTopic(records, METRICS_TOPIC, sample.decode)

"""The topics that a broker writes itself: events (`__cluster_events`), and a sample of its metrics every second
(`__broker_metrics`). docs/events.md describes their fields. Apache Kafka has neither.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.records import RecordCalls, Span, Start
from broker_cy.client.errors import ClientError
from broker_cy.core.classes import dataclass
from broker_cy.core.errors import ErrorCode
from broker_cy.metrics import events, sample
from broker_cy.metrics.events import Stamped
from broker_cy.metrics.sample import Sample
from broker_cy.wire.records import Record

EVENTS_TOPIC = events.TOPIC
METRICS_TOPIC = sample.TOPIC
_SWITCHES = {
    EVENTS_TOPIC: "brokercy.events.enable=false",
    METRICS_TOPIC: "brokercy.metrics.sample.interval.ms=0",
}
# Bytes that are decoded in one turn of the loop, about 5 ms: a commit event of 1,000 partitions has 120 KB.
DECODED_BYTES_A_TURN = 64 << 10
# The largest range that is read and kept in memory.
RANGE_BYTES_MAX = 8 << 20
# Records that are searched for the newest wanted ones: most events are commits, one a second for each group.
NEWEST_RECORDS_FIRST = 250
NEWEST_RECORDS_MAX = 20_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A record: `item` is None if it is of a type or version that this code does not know; `value` is its bytes."""

    offset: int
    item: T | None
    value: bytes

    @property
    def fields(self) -> dict[str, Any]:
        """The record as it was written, with fields that this code does not know."""
        found = json.loads(self.value)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True, slots=True)
class Newest(Generic[T]):
    """The newest entries; the search began at `start`, and `is_complete` is False if there may be older ones."""

    entries: list[Entry[T]]
    start: int
    is_complete: bool


class OwnTopic(Generic[T]):
    """Reads one of these topics. A record of another form is passed over, and counted in `unreadable`."""

    def __init__(self, records: RecordCalls, topic: str, decode: Callable[[bytes], T | None]) -> None:
        self._records = records
        self._decode = decode
        self.topic = topic
        self.partition = TopicPartition(topic, 0)
        self.unreadable = 0

    async def span(self, start: Start) -> Span:
        """The start to read from, and the end. Raises ClientError (UNKNOWN_TOPIC_OR_PARTITION) without this topic."""
        try:
            await self._records.partitions(self.topic)
            return (await self._records.spans([self.partition], start))[self.partition]
        except ClientError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                reason = (
                    f"the cluster does not have this topic: broker-cy writes it, unless {_SWITCHES[self.topic]}; "
                    "Apache Kafka does not"
                )
                raise ClientError(error.failure, reason, code=error.code, what=f"topic {self.topic}") from None
            raise

    async def read(
        self, start: int, end: int | None = None, *, skip: bytes = b"", only: bytes = b""
    ) -> AsyncIterator[list[Entry[T]]]:
        """Entries from an offset on, the oldest first; up to `end`, or as they are written without an end.

        Values that begin with `skip`, or do not with `only`, are left out without being decoded: decoding takes most of
        the time, and most events are commits.
        """
        async with self._records.reader(
            {self.partition: start}, ends=None if end is None else {self.partition: end}
        ) as reader:
            async for chunk in reader:
                records = [
                    each
                    for each in chunk.records
                    if not (skip and (each.value or b"").startswith(skip)) and (each.value or b"").startswith(only)
                ]
                for piece in _turns(records):
                    yield self._entries(piece)
                    await asyncio.sleep(0)

    async def read_range(self, start: int, end: int, *, skip: bytes = b"") -> list[Entry[T]] | None:
        """All entries of a range; None if it is larger than RANGE_BYTES_MAX, as a part of it is of no use."""
        found: list[Entry[T]] = []
        size = 0
        if start < end:
            async for entries in self.read(start, end, skip=skip):
                found += entries
                size += sum(len(entry.value) for entry in entries)
                if size > RANGE_BYTES_MAX:
                    return None
        return found

    async def newest(
        self, count: int, wanted: Callable[[T], bool], end: int, earliest: int, *, skip: bytes = b""
    ) -> Newest[T]:
        """The newest `count` entries that are wanted, the oldest of them first.

        At most NEWEST_RECORDS_MAX records before `end` are searched.
        """
        found: list[Entry[T]] = []
        first, step = end, NEWEST_RECORDS_FIRST
        while first > earliest and len(found) < count and end - first < NEWEST_RECORDS_MAX:
            start = max(earliest, first - step, end - NEWEST_RECORDS_MAX)
            entries = await self.read_range(start, first, skip=skip)
            if entries is None and step > 1:
                # The records are large: read fewer per request.
                step = max(1, step // 8)
                continue
            found = [each for each in entries or () if each.item is not None and wanted(each.item)] + found
            first, step = start, step * 4
        return Newest(found[-count:], first, first <= earliest or len(found) >= count)

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
    """`records` in pieces, each for one turn of the loop."""
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

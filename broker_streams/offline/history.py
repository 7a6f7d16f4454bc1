"""Recorded records of input partitions: those of an archive, and those of the topic from exactly the offset where the
archive ends.

An archive is a place outside the cluster, such as the segment files of a log directory (segments.py) or a lake of
Parquet files (lake.py). It may begin before the first record that the topic still has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from uuid import UUID

from broker_cy.admin import AdminClient, ClientError, Failure
from broker_cy.admin.configs import ConfigResource, ResourceType
from broker_cy.admin.fetched import Chunk
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import Isolation
from broker_cy.admin.records import Span, Start, StartKind
from broker_streams.kernel.partition_group import Parts as Input

# Bytes of one answer of a partition, about a chunk.
CHUNK_BYTES: Final = 256 << 10
POLICY: Final = "cleanup.policy"
# The id of a topic whose broker does not tell it.
_NO_ID: Final = UUID(int=0)


class Extent(NamedTuple):
    """The offsets of a partition in an archive: from the first to before `end`."""

    first: int
    end: int


class Archive(Protocol):
    """Methods block. They raise ClientError: the archive cannot be read, or has not all of the records."""

    # The option that names it, with its value: for messages.
    name: str
    # Where both have a record, it is read from the archive, not from the topic.
    is_preferred: bool

    def extents(self, keys: Collection[TopicPartition], compacted: Collection[str]) -> Mapping[TopicPartition, Extent]:
        """The partitions that it has. `compacted` are the topics in which offsets may be missing."""

    def topic_id(self, key: TopicPartition) -> UUID | None:
        """The id of the topic from which the records came; None: it is not known."""

    def at_time(self, key: TopicPartition, time_ms: int) -> int | None:
        """The first offset with this timestamp or a later one; None without one."""

    def records(self, key: TopicPartition, start: int, end: int) -> Iterator[list[Input]]:
        """The committed records in their order, in lists of bounded size."""


@dataclass(frozen=True)
class _Part:
    """A partition in both places. The archive is read from `first` up to `end`; the topic has offsets from `earliest`
    to `log_end`.
    """

    first: int
    end: int
    earliest: int
    log_end: int


class History:
    """`isolation` is that of the application; records of an archive are always those of commits."""

    def __init__(self, client: AdminClient, isolation: Isolation, archive: Archive | None = None) -> None:
        self.client = client
        self.isolation = isolation
        self._archive = archive
        self._parts: dict[TopicPartition, _Part] = {}
        self._asked: set[TopicPartition] = set()
        self._compacted: dict[str, bool] = {}

    async def compacted(self, topics: Iterable[str]) -> frozenset[str]:
        """Those of the topics whose records may be replaced by later ones of their keys. Raises ClientError."""
        wanted = dict.fromkeys(topics)
        unknown = [ConfigResource(ResourceType.TOPIC, each) for each in wanted if each not in self._compacted]
        if unknown:
            for resource, described in (await self.client.configs.describe(unknown, names=[POLICY])).whole().items():
                policy = next((each.value or "" for each in described if each.name == POLICY), "")
                self._compacted[resource.name] = "compact" in policy
        return frozenset(each for each in wanted if self._compacted[each])

    async def spans(self, keys: Iterable[TopicPartition], start: Start) -> dict[TopicPartition, Span]:
        """Where to start in each partition: `earliest` may be before the log's. Raises ClientError."""
        wanted = list(dict.fromkeys(keys))
        spans = await self.client.records.spans(wanted, start, isolation=self.isolation)
        if self._archive is None:
            return spans
        await self._look(wanted, spans)
        for key, span in spans.items():
            part = self._parts.get(key)
            if part is None or part.first >= span.earliest:
                continue
            begin = span.start
            if start.kind is StartKind.EARLIEST:
                begin = part.first
            elif start.kind is StartKind.TIME:
                found = await asyncio.to_thread(self._archive.at_time, key, start.value)
                begin = begin if found is None else min(begin, found)
            spans[key] = Span(begin, span.end, part.first)
        return spans

    async def records(self, key: TopicPartition, start: int, end: int) -> AsyncGenerator[list[Input], None]:
        """The records from `start` to before `end`, in their order. Raises ClientError."""
        part = self._parts.get(key)
        if part is not None and self._archive is not None:
            # The topic may have records before the archive.
            async with aclosing(self._log(key, start, min(end, part.first))) as log:
                async for found in log:
                    yield found
            source = self._archive.records(key, max(start, part.first), min(end, part.end))
            while (rows := await asyncio.to_thread(next, source, None)) is not None:
                yield rows
            start = max(start, part.end)
        async with aclosing(self._log(key, start, end)) as log:
            async for found in log:
                yield found

    async def _log(self, key: TopicPartition, start: int, end: int) -> AsyncGenerator[list[Input], None]:
        if start >= end:
            return
        async with aclosing(chunks(self.client, {key: start}, {key: end}, self.isolation)) as found:
            async for chunk in found:
                if rows := inputs_of(chunk):
                    yield rows

    async def _look(self, keys: Iterable[TopicPartition], spans: Mapping[TopicPartition, Span]) -> None:
        """Find out what the archive has of partitions, once for each. Raises ClientError: it does not fit the topic."""
        unknown = [key for key in keys if key not in self._asked]
        if self._archive is None or not unknown:
            return
        compacted = await self.compacted(key.topic for key in unknown)
        extents = await asyncio.to_thread(self._archive.extents, unknown, compacted)
        if not extents and not self._asked:
            names = ", ".join(sorted({key.topic for key in unknown}))
            raise ClientError(Failure.INVALID, f"it has no partition of {names}", what=self._archive.name)
        self._asked |= set(unknown)
        ends = (await self.client.offsets.latest(list(extents))).whole() if extents else {}
        ids = {each.name: each.topic_id for each in await self.client.topics.list_all()} if extents else {}
        for key, extent in extents.items():
            if extent.first >= extent.end:
                continue
            part = _Part(extent.first, extent.end, spans[key].earliest, ends[key])
            _require_fit(self._archive, key, part, ids.get(key.topic, _NO_ID))
            if not self._archive.is_preferred:
                await self._require_same(key, part)
                part = _Part(part.first, max(part.first, min(part.end, part.earliest)), part.earliest, part.log_end)
            self._parts[key] = part

    async def _require_same(self, key: TopicPartition, part: _Part) -> None:
        """Raise ClientError if archive and topic have another record at the last offset of the archive."""
        at = part.end - 1
        if self._archive is None or at < part.earliest:
            return
        archived = [each async for each in _in_thread(self._archive.records(key, at, at + 1))]
        logged = [each async for rows in self._log(key, at, at + 1) for each in rows]
        # The record may have been compacted since, or it was never committed.
        if archived and logged and archived[0][:3] != logged[0][:3]:
            reason = f"its record at offset {at} is another one than that of the topic: was the topic made again?"
            raise ClientError(Failure.REFUSED, reason, what=f"{self._archive.name}: {key}")


async def _in_thread(source: Iterator[list[Input]]) -> AsyncIterator[Input]:
    while (rows := await asyncio.to_thread(next, source, None)) is not None:
        for each in rows:
            yield each


def _require_fit(archive: Archive, key: TopicPartition, part: _Part, topic_id: UUID) -> None:
    """Raises ClientError: records between archive and topic are missing, or they are those of another topic."""
    what = f"{archive.name}: {key}"
    theirs = archive.topic_id(key)
    if theirs is not None and topic_id != _NO_ID and theirs != topic_id:
        reason = f"it is of the topic with the id {theirs}, and that of the cluster has {topic_id}: it was made again"
        raise ClientError(Failure.REFUSED, reason, what=what)
    if part.end > part.log_end:
        reason = f"it goes to offset {part.end}, and the topic only to {part.log_end}: was the topic made again?"
        raise ClientError(Failure.REFUSED, reason, what=what)
    if part.end < part.earliest:
        reason = f"it ends at offset {part.end}, and the topic begins at {part.earliest}: those between are missing"
        raise ClientError(Failure.REFUSED, reason, what=what)


def inputs_of(chunk: Chunk) -> list[Input]:
    """Raises ClientError: records are damaged, or were deleted before they were read."""
    if chunk.damage:
        raise ClientError(Failure.REFUSED, f"records cannot be read: {chunk.damage[0]}", what=str(chunk.partition))
    if chunk.lost_from is not None:
        reason = f"records from offset {chunk.lost_from} on were deleted before they were read"
        raise ClientError(Failure.REFUSED, reason, what=str(chunk.partition))
    return [
        (record.key, record.value, record.timestamp, record.offset, tuple(record.headers)) for record in chunk.records
    ]


async def chunks(
    client: AdminClient,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    isolation: Isolation,
) -> AsyncGenerator[Chunk, None]:
    """The chunks of all these partitions, in the order of each."""
    wanted = {key: at for key, at in starts.items() if at < ends[key]}
    if not wanted:
        return
    theirs = {key: ends[key] for key in wanted}
    async with client.records.reader(
        wanted, ends=theirs, isolation=isolation, partition_bytes_max=CHUNK_BYTES
    ) as reader:
        async for chunk in reader:
            yield chunk

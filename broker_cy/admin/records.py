"""Reading records: where to start, readers, and the timestamps at offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from enum import Enum

from broker_cy.admin.caller import Caller, Leaders, Outcome
from broker_cy.admin.fetched import RowForm, decode_partition, fetch
from broker_cy.admin.metadata import TopicPartition
from broker_cy.admin.offsets import EARLIEST, LATEST, Isolation, OffsetCalls
from broker_cy.admin.produce import ACKS_ALL, Producer
from broker_cy.admin.reader import FETCH_BYTES_MAX, PARTITION_BYTES_MAX, Reader
from broker_cy.client.deadline import Deadline
from broker_cy.client.errors import ClientError, Failure, Problem, problem_of
from broker_cy.client.pool import Peer
from broker_cy.core.classes import dataclass
from broker_cy.wire import messages
from broker_cy.wire.compression import Codec

# One record is wanted; a broker returns a whole batch, however few bytes are requested.
_ONE_BATCH_BYTES = 1
# Batches without records (transaction markers, emptied batches) that are passed over in search of one.
_BATCHES_WITHOUT_RECORDS_MAX = 16


class StartKind(Enum):
    """How the first offset is determined."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSET = "offset"
    TIME = "time"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Start:
    """Where to read from. `value`: the offset, the time in ms since 1970, how many offsets before the end; else 0."""

    kind: StartKind
    value: int = 0

    @classmethod
    def earliest(cls) -> Start:
        return cls(StartKind.EARLIEST)

    @classmethod
    def latest(cls) -> Start:
        return cls(StartKind.LATEST)

    @classmethod
    def offset(cls, offset: int) -> Start:
        return cls(StartKind.OFFSET, offset)

    @classmethod
    def time(cls, time_ms: int) -> Start:
        """The first record at or after a time."""
        return cls(StartKind.TIME, time_ms)

    @classmethod
    def last(cls, count: int) -> Start:
        """This many offsets before the end of each partition: fewer records after compaction, or with markers."""
        return cls(StartKind.LAST, count)


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets of a partition: `start` to read from, the current `end`, and `earliest`, the start of the log."""

    start: int
    end: int
    earliest: int


class RecordCalls:
    """`client.records`."""

    def __init__(self, caller: Caller, offsets: OffsetCalls) -> None:
        self._caller = caller
        self._offsets = offsets

    async def partitions(self, topic: str) -> tuple[TopicPartition, ...]:
        """The partitions of a topic. Raises ClientError."""
        found, failed = await self._caller.metadata.topics([topic], self._caller.deadline())
        for error in failed.values():
            raise error
        return tuple(TopicPartition(topic, part.partition) for part in found[topic].partitions)

    async def spans(
        self,
        partitions: Iterable[TopicPartition],
        start: Start,
        *,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> dict[TopicPartition, Span]:
        """Where to start in each partition, between the log start offset and the end. Raises ClientError."""
        keys = list(dict.fromkeys(partitions))
        if start.value < 0:
            raise ClientError(Failure.INVALID, f"{start.kind.value} {start.value}: must be 0 or more")
        asked = [
            self._offsets.at(dict.fromkeys(keys, EARLIEST)),
            self._offsets.at(dict.fromkeys(keys, LATEST), isolation=isolation),
        ]
        if start.kind is StartKind.TIME:
            asked.append(self._offsets.at(dict.fromkeys(keys, start.value), isolation=isolation))
        earliest, latest, *at_time = [outcome.whole() for outcome in await asyncio.gather(*asked)]
        spans = {}
        for key in keys:
            low, high = earliest[key].offset or 0, latest[key].offset or 0
            if start.kind is StartKind.TIME:
                found = at_time[0][key].offset
                first = high if found is None else found
            else:
                first = {
                    StartKind.EARLIEST: low,
                    StartKind.LATEST: high,
                    StartKind.OFFSET: start.value,
                    StartKind.LAST: high - start.value,
                }[start.kind]
            spans[key] = Span(min(max(first, low), high), high, low)
        return spans

    def reader(
        self,
        starts: Mapping[TopicPartition, int],
        *,
        ends: Mapping[TopicPartition, int] | None = None,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
        fetch_bytes_max: int = FETCH_BYTES_MAX,
        partition_bytes_max: int = PARTITION_BYTES_MAX,
        containing: bytes | None = None,
        forms: Mapping[TopicPartition, RowForm] | None = None,
    ) -> Reader:
        """Chunks of records from `starts` on: see Reader."""
        return Reader(
            self._caller,
            starts,
            ends=ends,
            isolation=isolation,
            fetch_bytes_max=fetch_bytes_max,
            partition_bytes_max=partition_bytes_max,
            containing=containing,
            forms=forms,
        )

    def producer(
        self,
        *,
        acks: int = ACKS_ALL,
        codec: Codec = Codec.NONE,
        level: int | None = None,
        creates_topics: bool = False,
    ) -> Producer:
        """Sends records: see Producer."""
        return Producer(self._caller, acks=acks, codec=codec, level=level, creates_topics=creates_topics)

    async def timestamps(self, offsets: Mapping[TopicPartition, int]) -> Outcome[TopicPartition, int | None]:
        """The timestamp, in ms since 1970, of the first record at or after an offset of each partition.

        None without such a record, or if it has no timestamp. One batch of each partition is fetched.
        """

        async def send(
            peer: Peer, keys: list[TopicPartition], deadline: Deadline
        ) -> dict[TopicPartition, _Stamp | Problem]:
            (key,) = keys
            offset = offsets[key]
            for _ in range(_BATCHES_WITHOUT_RECORDS_MAX):
                part = await self._one_batch(peer, key, offset, deadline)
                if part is None:
                    return {}
                if (problem := problem_of(part.error_code)) is not None:
                    return {key: problem}
                chunk = decode_partition(key, part, offset, None, Isolation.READ_UNCOMMITTED)
                if chunk.records:
                    timestamp = chunk.records[0].timestamp
                    return {key: _Stamp(None if timestamp < 0 else timestamp)}
                if chunk.next_offset == offset:
                    break
                offset = chunk.next_offset
            return {key: _Stamp(None)}

        outcome = await self._caller.spread(
            offsets,
            Leaders(self._caller.metadata),
            send,
            api="Fetch",
            name=lambda key: f"partition {key}",
            chunk=1,
        )
        return Outcome({key: each.timestamp_ms for key, each in outcome.found.items()}, outcome.failed)

    async def _one_batch(
        self, peer: Peer, key: TopicPartition, offset: int, deadline: Deadline
    ) -> messages.FetchResponse.PartitionData | None:
        """The answer of a Fetch for the batch that holds `offset`."""
        answer, _ = await fetch(
            self._caller,
            peer,
            {key: offset},
            deadline,
            bytes_max=_ONE_BATCH_BYTES,
            partition_bytes_max=_ONE_BATCH_BYTES,
        )
        parts = [each for topic in answer.responses for each in topic.partitions]
        return parts[0] if len(parts) == 1 else None


@dataclass(frozen=True, slots=True)
class _Stamp:
    timestamp_ms: int | None

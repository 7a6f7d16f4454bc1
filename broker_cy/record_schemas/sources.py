"""Reads of the registry's topic: from the log if this broker leads it, else from its leader, as a consumer does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from broker_cy.core.classes import NamedTuple
from broker_cy.core.errors import ErrorCode, KafkaError
from broker_cy.replica.replica import Role
from broker_cy.storage.cold_lookup import look_up
from broker_cy.storage.errors import OffsetOutOfRange
from broker_cy.storage.lookups import aborted_in_slice
from broker_cy.wire import messages

if TYPE_CHECKING:
    import asyncio
    from concurrent.futures import Executor
    from uuid import UUID

    from broker_cy.metadata.image import MetadataImage
    from broker_cy.network.broker_calls import Caller
    from broker_cy.replica.partition import Partition
    from broker_cy.replica.partition_table import PartitionTable
    from broker_cy.storage.log_slice import LogSlice

PART_BYTES: Final = 256 << 10
"""Read at a time, unless one batch is larger: about a thousand schemas, which the loop applies in 2 ms."""
# The first version with topic ids: an answer is never that of another topic of the name.
_FETCH_VERSION: Final = 13
_READ_COMMITTED: Final = 1
_NO_SESSION_EPOCH: Final = -1

Aborted = Sequence[messages.FetchResponse.AbortedTransaction]


class NotReadable(Exception):
    """The topic cannot be read now; the message is the reason."""


class OffsetGone(Exception):
    """There is no such offset; the log begins at `log_start`."""

    def __init__(self, log_start: int) -> None:
        super().__init__(f"the log begins at {log_start}")
        self.log_start = log_start


class TopicPart(NamedTuple):
    """Batches from an offset on, with the aborted transactions among them; empty at the end. `stable_end` is the last
    stable offset at the time of the read.
    """

    data: bytes
    aborted: Aborted
    stable_end: int


class Source(Protocol):
    """The topic, as the follower sees it."""

    def topic_id(self) -> UUID | None:
        """Return the id of the topic in the committed metadata; None if it does not exist."""

    async def read(self, topic_id: UUID, offset: int) -> TopicPart:
        """Raises NotReadable, OffsetGone."""


class BrokerSource:
    """Partition 0 of a topic. `calls` are requests to other brokers; `cold_reader` are the workers that read files."""

    def __init__(
        self,
        topic: str,
        node_id: int,
        image: Callable[[], MetadataImage],
        partitions: PartitionTable,
        calls: Caller,
        loop: asyncio.AbstractEventLoop,
        cold_reader: Executor | None,
    ) -> None:
        self._topic = topic
        self._node_id = node_id
        self._image = image
        self._partitions = partitions
        self._calls = calls
        self.loop = loop
        self.cold_reader = cold_reader

    def topic_id(self) -> UUID | None:
        found = self._image().topics.by_name(self._topic)
        return None if found is None else found.topic_id

    async def read(self, topic_id: UUID, offset: int) -> TopicPart:
        topic = self._image().topics.by_name(self._topic)
        if topic is None or topic.topic_id != topic_id or 0 not in topic.partitions:
            raise NotReadable("the topic was deleted")
        leader = topic.partitions[0]
        try:
            if leader.leader == self._node_id:
                return await self._read_log(topic_id, offset)
            return await self._fetch(topic_id, offset, leader.leader, leader.leader_epoch)
        except (KafkaError, OSError) as error:
            raise NotReadable(str(error)) from error

    async def _read_log(self, topic_id: UUID, offset: int) -> TopicPart:
        partition = self._partitions.get(self._topic, 0)
        if partition is None or partition.topic_id != topic_id or partition.offline is not None:
            raise NotReadable("its log is not open" if partition is None else partition.offline or "it was recreated")
        if partition.replica.role != Role.LEADER:
            raise NotReadable("this broker does not lead it yet")
        end = partition.last_stable_offset
        if not partition.log.log_start_offset <= offset <= partition.log.log_end_offset:
            raise OffsetGone(partition.log.log_start_offset)
        if offset >= end:
            return TopicPart(b"", (), end)
        try:
            found = await look_up(self, _slice, partition, offset, end)
        except OffsetOutOfRange:
            # The log was cut while a worker read.
            raise OffsetGone(partition.log.log_start_offset) from None
        if found is None:
            return TopicPart(b"", (), end)
        part, pairs = found
        data = await self.loop.run_in_executor(self.cold_reader, part.read)
        aborted = [
            messages.FetchResponse.AbortedTransaction(producer_id=each, first_offset=first) for each, first in pairs
        ]
        return TopicPart(data, aborted, end)

    async def _fetch(self, topic_id: UUID, offset: int, leader: int, leader_epoch: int) -> TopicPart:
        """The epoch refuses a leader that does not know its successor, if this broker does."""
        request = messages.FetchRequest(
            max_bytes=PART_BYTES,
            isolation_level=_READ_COMMITTED,
            session_epoch=_NO_SESSION_EPOCH,
            topics=[
                messages.FetchRequest.FetchTopic(
                    topic_id=topic_id,
                    partitions=[
                        messages.FetchRequest.FetchPartition(
                            partition=0,
                            current_leader_epoch=leader_epoch,
                            fetch_offset=offset,
                            partition_max_bytes=PART_BYTES,
                        )
                    ],
                )
            ],
        )
        answer = await self._calls.ask(leader, request, messages.FetchResponse, at_least=_FETCH_VERSION)
        found = [part for topic in answer.responses for part in topic.partitions]
        code = ErrorCode(found[0].error_code if found else answer.error_code)
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise OffsetGone(max(0, found[0].log_start_offset))
        if code is not ErrorCode.NONE or not found:
            raise NotReadable(f"broker {leader} answered {code.name}")
        part = found[0]
        return TopicPart(bytes(part.records or b""), part.aborted_transactions or (), part.last_stable_offset)


def _slice(partition: Partition, offset: int, end: int) -> tuple[LogSlice, list[tuple[int, int]]] | None:
    """Return the bytes from `offset` on and the (producer id, first offset) of their aborted transactions. Raises
    ColdRead, StorageError, OSError.
    """
    part = partition.log.read_slice(offset, end, PART_BYTES, True)
    return None if part is None else (part, aborted_in_slice(partition.log, part, offset, end))
